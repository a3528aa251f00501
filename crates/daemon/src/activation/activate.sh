# Becomes a command inside an environment, in any POSIX shell:
#   conda NAME-OR-PREFIX COMMAND...
#   venv DIR COMMAND...
#   find                                tells which conda there is
# What keeps it from that goes, as one sentence, to the file start_error of the run directory.
# Scripts of the environments run in here: every name of ours begins with nexus_.

# A prelude may have set anything.
set +aefu

nexus_places='~/miniconda3 ~/miniforge3 ~/mambaforge ~/anaconda3 ~/miniconda ~/anaconda ~/micromamba ~/.local ~/.conda
/opt/conda /opt/miniconda3 /opt/miniforge3 /opt/mambaforge /opt/anaconda3 /usr/local'

nexus_refuse() {
    printf 'nexus: %s\n' "$1" >&2
    printf '%s\n' "$1" >"$NEXUS_RUN_DIR/start_error"
    exit 127
}

# The path $1 with its ~/ replaced.
nexus_expanded() {
    case $1 in
        "~/"*) printf '%s\n' "${HOME-}/${1#??}" ;;
        *) printf '%s\n' "$1" ;;
    esac
}

# PATH loses the folder $1.
nexus_without() {
    nexus_rest=$PATH:
    nexus_kept=
    while [ -n "$nexus_rest" ]; do
        nexus_entry=${nexus_rest%%:*}
        nexus_rest=${nexus_rest#*:}
        [ "$nexus_entry" = "$1" ] || nexus_kept=$nexus_kept:$nexus_entry
    done
    PATH=${nexus_kept#:}
}

# Whatever was active where the job was submitted, or in the prelude, is no more.
nexus_leave() {
    if [ -n "${VIRTUAL_ENV-}" ]; then
        nexus_without "$VIRTUAL_ENV/bin"
    fi
    if [ -n "${CONDA_PREFIX-}" ]; then
        for nexus_file in "$CONDA_PREFIX"/etc/conda/deactivate.d/*.sh; do
            [ -r "$nexus_file" ] && . "$nexus_file"
        done
        nexus_without "$CONDA_PREFIX/bin"
    fi
    nexus_level=1
    while eval "nexus_prefix=\${CONDA_PREFIX_$nexus_level-}" && [ -n "$nexus_prefix" ]; do
        nexus_without "$nexus_prefix/bin"
        unset "CONDA_PREFIX_$nexus_level" "CONDA_STACKED_$nexus_level"
        nexus_level=$((nexus_level + 1))
    done
    # Without a level, conda begins anew; an empty one it cannot read.
    unset CONDA_PREFIX CONDA_SHLVL CONDA_DEFAULT_ENV CONDA_PROMPT_MODIFIER
    unset VIRTUAL_ENV VIRTUAL_ENV_PROMPT PYTHONHOME
}

nexus_is_program() {
    [ -f "$1" ] && [ -x "$1" ]
}

# Sets nexus_tool. By hand: a function of the same name may be about.
nexus_find_conda() {
    for nexus_tool in "${CONDA_EXE-}" "${MAMBA_EXE-}"; do
        nexus_is_program "$nexus_tool" && return 0
    done
    for nexus_name in conda mamba micromamba; do
        nexus_rest=$PATH:
        while [ -n "$nexus_rest" ]; do
            nexus_tool=${nexus_rest%%:*}/$nexus_name
            nexus_rest=${nexus_rest#*:}
            nexus_is_program "$nexus_tool" && return 0
        done
    done
    for nexus_place in $nexus_places; do
        for nexus_name in bin/conda condabin/conda bin/mamba bin/micromamba; do
            nexus_tool=$(nexus_expanded "$nexus_place")/$nexus_name
            nexus_is_program "$nexus_tool" && return 0
        done
    done
    return 1
}

# What a shell has to do to be in environment $1, from the tool that knows; never from the job's input, and without a
# question whether a fault may be reported.
nexus_ask_conda() {
    case ${nexus_tool##*/} in
        conda) CONDA_REPORT_ERRORS=false "$nexus_tool" shell.posix activate "$1" </dev/null ;;
        *) "$nexus_tool" shell activate "$1" --shell bash </dev/null ;;
    esac
}

nexus_enter_conda() {
    nexus_find_conda || nexus_refuse "no conda, mamba or micromamba is here for the environment $1: looked at\
 CONDA_EXE, MAMBA_EXE, PATH and$(printf ' %s' $nexus_places); install one, or name it: --env CONDA_EXE=/path/to/conda"
    # The older mamba leaves activation to the conda beside it.
    if [ "${nexus_tool##*/}" = mamba ] && nexus_is_program "${nexus_tool%/*}/conda"; then
        nexus_tool=${nexus_tool%/*}/conda
    fi
    nexus_leave
    if ! nexus_text=$(nexus_ask_conda "$1"); then
        # The first line of what it says; of a fault in it, the last.
        nexus_why=$(nexus_ask_conda "$1" 2>&1 >/dev/null | sed '/^[[:space:]]*$/d' | sed -n '1{/^Traceback/!{p;q;};};$p')
        nexus_refuse "$nexus_tool cannot activate the environment $1: ${nexus_why:-it does not say why};\
 $nexus_tool env list shows those there are"
    fi
    eval "$nexus_text"
    [ -n "${CONDA_PREFIX-}" ] || nexus_refuse "$nexus_tool did not activate the environment $1, and did not say why"
}

nexus_enter_venv() {
    [ -d "$1" ] || nexus_refuse "there is no virtual environment $1: python3 -m venv $1 makes one"
    nexus_leave
    if [ -r "$1/bin/activate" ]; then
        VIRTUAL_ENV_DISABLE_PROMPT=1
        . "$1/bin/activate" || nexus_refuse "$1/bin/activate ended with $?"
        unset VIRTUAL_ENV_DISABLE_PROMPT
    elif ! nexus_is_program "$1/bin/python"; then
        nexus_refuse "$1 is no virtual environment, it has neither bin/activate nor bin/python: python3 -m venv $1 makes one"
    fi
    # One that was moved, or has no script, is this one all the same.
    nexus_without "$1/bin"
    VIRTUAL_ENV=$1
    PATH=$1/bin:$PATH
    export VIRTUAL_ENV PATH
}

# Which GPUs a job has is not for an environment to say.
nexus_gpus=${CUDA_VISIBLE_DEVICES-}
nexus_order=${CUDA_DEVICE_ORDER-}
case $1 in
    find)
        nexus_find_conda || exit 1
        printf '%s\n' "$nexus_tool"
        exit 0
        ;;
    conda)
        case $2 in
            */*) nexus_enter_conda "$(nexus_expanded "$2")" ;;
            *) nexus_enter_conda "$2" ;;
        esac
        ;;
    venv) nexus_enter_venv "$(nexus_expanded "$2")" ;;
esac
export CUDA_VISIBLE_DEVICES="$nexus_gpus" CUDA_DEVICE_ORDER="$nexus_order"
shift 2
exec "$@"
