# Runs a program in a directory: $1 is the directory, $2 the program, the rest its words. The first line of its output says whether
# there is such a program. When it has ended, all that it has started ends too, in whichever session it is.
if [ ! -d "$1" ]; then
    if [ -e "$1" ]; then echo 'directory 20'; else echo 'directory 2'; fi
    exit 126
fi
cd "$1" 2>/dev/null || { echo 'directory 13'; exit 126; }
shift
case $1 in
*/*) program=$1 ;;
*)
    # Not `command -v`, which finds what is built into the shell.
    program=
    set -f
    IFS=:
    for folder in $PATH; do
        if [ -f "${folder:-.}/$1" ] && [ -x "${folder:-.}/$1" ]; then
            program=${folder:-.}/$1
            break
        fi
    done
    unset IFS
    set +f
    ;;
esac
if [ ! -e "$program" ]; then echo 'program 2'; exit 127; fi
if [ -d "$program" ] || [ ! -x "$program" ]; then echo 'program 13'; exit 126; fi
shift
umask 022
echo started
# What the shell says about a program that was killed is not output of the program. Some shells redirect before they fork.
exec 3>&2 2>/dev/null
(exec "$program" "$@" 2>&3 3>&-)
status=$?
kill -9 -1
exit $status
