# Completions of nexus for bash.
_nexus() {
    local word words=() i
    # bash parts words at colons and equals signs, which are inside of words here: tag:x, --gpus=2.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 1)) && [[ $word == [:=]* || ${words[-1]} == *[:=] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    word=${words[-1]}
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null | cut -f1)
    # Of a word that was parted bash replaces the last part alone.
    local before=${word%"${word##*[:=]}"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:/=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _nexus nexus
