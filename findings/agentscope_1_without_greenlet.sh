#!/usr/bin/env bash
# AgentScope 1.0.21, the newest of release 1: installed today, it cannot be imported.
#
# SQLAlchemy's asyncio part is imported with the package, and its metadata asks for `sqlalchemy` alone. SQLAlchemy 2.1 brings
# greenlet with its extra `asyncio` only, where 2.0 brought it along on common machines. Installing greenlet is enough.
#
# Seen with agentscope 1.0.21, SQLAlchemy 2.1.9, mcp 1.30.0, openai 2.54.0 and Python 3.11.7 on Linux, 1 December 2026:
#   import agentscope: ImportError, the 'greenlet' library is not installed; with greenlet: imported
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip=("$work/venv/bin/pip" install --quiet)
"${pip[@]}" "agentscope==1.0.21" "sqlalchemy==2.1.9" "mcp==1.30.0" "openai==2.54.0" tqdm 2>/dev/null
try_import() {
    "$work/venv/bin/python" -c 'import agentscope; print("imported")' 2>&1 | tail -n 1 || true
}
before=$(try_import)
"${pip[@]}" greenlet 2>/dev/null
after=$(try_import)
echo "as it is installed: $before"
echo "with greenlet: $after"
[[ $before == ImportError*greenlet* ]] || { echo "it brings greenlet, or needs none: changed"; exit 1; }
[ "$after" = imported ] || { echo "greenlet is not enough: changed"; exit 1; }
