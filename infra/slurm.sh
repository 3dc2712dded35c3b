#!/usr/bin/env bash
# Caption on a Slurm allocation, from the checkout's root, whose .venv all nodes see:
#   sbatch infra/slurm.sh --config configs/qwen2_5_vl_7b.yaml --set output=/shared/captions
# Two minutes before the time limit, and on preemption, the driver gets SIGTERM, ends in order, and
# the job is queued again: it resumes.
#SBATCH --job-name=lvspec
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=1
#SBATCH --mem=128G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:?this is a script for sbatch}"
export PATH="$PWD/.venv/bin:$PATH"
export RAY_AUTH_MODE=token
ray get-auth-token --generate > /dev/null # kept in ~/.ray, which all nodes see

port=6379
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
each=(--ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --gpus-per-task="${SLURM_GPUS_PER_NODE:-0}")
node=(--num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_PER_NODE:-0}" --block)

srun --nodes=1 --nodelist="$head" "${each[@]}" --overlap \
    ray start --head --port="$port" "${node[@]}" &
export RAY_ADDRESS="$head:$port"
until ray status > /dev/null 2>&1; do sleep 2; done
if ((SLURM_NNODES > 1)); then
    srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$head" \
        --cpus-per-task="$SLURM_CPUS_PER_TASK" --overlap \
        ray start --address="$RAY_ADDRESS" "${node[@]}" &
fi
until (($(ray list nodes --filter state=ALIVE --format json | grep -c node_id) >= SLURM_NNODES)); do
    sleep 2
done

python jobs/caption_corpus.py "$@" &
driver=$!
trap 'kill -TERM "$driver"' TERM
code=0
wait "$driver" || code=$?
while kill -0 "$driver" 2> /dev/null; do # a signal ends `wait`, not yet the driver
    code=0
    wait "$driver" || code=$?
done
if ((code == 143)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
