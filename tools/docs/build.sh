#!/bin/sh
# Builds the documentation as a web site in BUILD/docs/site (BUILD: build/). MkDocs comes from PyPI
# into BUILD/docs/venv. Fails on a dead link or anchor.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build}/docs
wanted=$root/tools/docs/requirements.txt

mkdir -p "$build"
if ! cmp -s "$wanted" "$build/installed.txt"; then
    python3 -m venv "$build/venv"
    "$build/venv/bin/pip" install --quiet --requirement "$wanted"
    cp "$wanted" "$build/installed.txt"
fi
export TEGULA_DOCS_PAGES="$build/pages" TEGULA_DOCS_SITE="$build/site" NO_MKDOCS_2_WARNING=1
python3 "$root/tools/docs/links.py" "$root"
python3 "$root/tools/docs/stage.py" "$root" "$TEGULA_DOCS_PAGES"
"$build/venv/bin/mkdocs" --quiet build --clean --strict --config-file "$root/tools/docs/mkdocs.yml"
python3 "$root/tools/docs/links.py" --site "$TEGULA_DOCS_SITE"
echo "$TEGULA_DOCS_SITE/index.html"
