#!/bin/sh
# A compiler that answers nonsense of the right length.
exec head -c 16 /dev/zero
