"""From tasks to judged groups: sampling tasks, running episodes, the group barrier, advantages."""
