#!/bin/bash
# A fit in one allocation: this job starts the scheduler, srun the workers.
#   sbatch deploy/slurm/fit.sh configs/slurm.yaml
# A job whose time ends, or whose workers are lost, is put into the queue again and goes on where it was.
#SBATCH --job-name=kpca-fit
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=kpca-fit-%j.log
set -uo pipefail

config=${1:?usage: sbatch fit.sh CONFIG}
most_restarts=${KPCA_MOST_RESTARTS:-20}

kpca-stream fit "$config" &
fit=$!
trap 'kill -TERM "$fit" 2>/dev/null' TERM
wait "$fit"
code=$?
# A signal ends the first wait; the command's own code comes from the second.
while kill -0 "$fit" 2>/dev/null; do
  wait "$fit"
  code=$?
done

case $code in
  75 | 143)
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "$most_restarts" ]; then
      echo "exit $code: into the queue again"
      scontrol requeue "$SLURM_JOB_ID"
    fi
    ;;
esac
exit "$code"
