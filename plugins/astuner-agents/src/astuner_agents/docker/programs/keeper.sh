# The first process of a container. It ends with its stdin, that is, with the run, and then everything in the container ends.
# For each line it ends all processes of its user, takes the statuses of those that were left to it, and answers `done` with the
# number of processes that the kernel has refused so far, if there is a file that says so.
printf 'ready %s %s\n' "$(id -u)" "$(id -g)"
while read -r order; do
    kill -9 -1 2>/dev/null
    # A shell takes statuses only while it waits for a process.
    (:)
    refused=
    for file in /sys/fs/cgroup/pids.events /sys/fs/cgroup/pids/pids.events; do
        if [ -r $file ]; then read -r _ refused <$file; fi
    done
    echo "done $refused"
done
