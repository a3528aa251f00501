# A job of the tests that stir: job.sh LEDGER MODE CODE SECONDS. What it does it writes down first, one line a write.
ledger=$1 mode=$2 code=$3 seconds=$4
run="$NEXUS_JOB_ID $NEXUS_ATTEMPT"
tell() { printf '%s\n' "$*" >>"$ledger"; }

# Its terminal may go with its shim: it goes on, and only nexus ends it.
trap "" HUP
# Asked to end it takes its time: whoever gets the GPU meanwhile shows up in the ledger between the two lines.
trap 'sleep 0.05; trap "" TERM; tell E $run term 143; exit 143' TERM
tell S $run "${NEXUS_TEST_HOST:-here}:$NEXUS_GPU_ID" $$

case $mode in
    exit) [ "$seconds" = 0 ] || { sleep "$seconds" & wait $!; } ;;
    # Fails once, then does not.
    retry) [ "$NEXUS_ATTEMPT" = 1 ] || code=0 ;;
    shot) trap "" TERM; tell E $run signal 9; kill -9 $$ ;;
    long) while :; do sleep 60 & wait $!; done ;;
esac
trap "" TERM
tell E $run exit "$code"
exit "$code"
