# job.sh GATE CODE: one line as it begins and one as it ends, for each execution. It waits for the file GATE (- for none).
exec 9>> "ran/$NEXUS_JOB_ID.lock"
flock -n 9 && alone=yes || alone=no
here="$NEXUS_ATTEMPT $SLURM_JOB_ID $SLURM_JOB_NODELIST"
gpus="${CUDA_VISIBLE_DEVICES-unset} ${SLURM_JOB_GPUS-} ${GPU_DEVICE_ORDINAL-}"
echo "begin $(date +%s%3N) $here|$gpus|$alone" | tr ' ' '|' >> "ran/$NEXUS_JOB_ID"
if [ "$1" != - ]; then
    until [ -e "$1" ]; do sleep 0.1; done
fi
echo "end $(date +%s%3N) $here" | tr ' ' '|' >> "ran/$NEXUS_JOB_ID"
exit "$2"
