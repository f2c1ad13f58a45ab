#!/bin/bash
# One array task for each file of a folder; files that are scored already cost nothing.
#   sbatch --array=0-9 deploy/slurm/score-array.sh configs/slurm.yaml FOLDER
# Task i of n scores the files i, i + n, i + 2n, ... in the order of their names, each into a folder of its own
# below scores-of-files, or KPCA_SCORES.
#SBATCH --job-name=kpca-score
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2G
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --output=kpca-score-%A-%a.log
set -uo pipefail

config=${1:?usage: sbatch --array=0-N score-array.sh CONFIG FOLDER}
folder=${2:?usage: sbatch --array=0-N score-array.sh CONFIG FOLDER}
task=${SLURM_ARRAY_TASK_ID:-0}
n_tasks=${SLURM_ARRAY_TASK_COUNT:-1}
scores=${KPCA_SCORES:-scores-of-files}

worst=0
number=0
for file in "$folder"/*; do
  if [ $((number % n_tasks)) -eq "$task" ]; then
    kpca-stream score "$config" --set "score.input={path: '$file'}" \
      --set "score.output='$scores/$(basename "$file")'" --set "cluster={kind: threads, n_workers: 1}"
    code=$?
    # A bad file (65) is told at the end and stops no other.
    if [ "$code" -gt "$worst" ]; then worst=$code; fi
  fi
  number=$((number + 1))
done
exit "$worst"
