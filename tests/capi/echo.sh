#!/bin/sh
# A fake compiler whose answers are nonsense of the right length.
head -c 16 /dev/zero
exec cat > /dev/null
