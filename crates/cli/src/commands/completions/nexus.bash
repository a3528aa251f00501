# Completions of nexus for bash.

# Takes the quotes out of a word as it was typed, and expands nothing in it. $REPLY is the word, $quote a quote that is open.
_nexus_unquote() {
    local c next i
    REPLY='' quote=''
    for ((i = 0; i < ${#1}; i++)); do
        c=${1:i:1}
        if [[ -z $quote && $c == [\'\"] ]]; then
            quote=$c
        elif [[ -n $quote && $c == "$quote" ]]; then
            quote=''
        elif [[ $c == \\ && $quote != \' ]]; then
            ((++i))
            next=${1:i:1}
            # Inside of double quotes a backslash stands for itself before most characters.
            [[ $quote == \" && $next != [\\\"\$\`] ]] && REPLY+=\\
            REPLY+=$next
        else
            REPLY+=$c
        fi
    done
}

# Quotes $REPLY, so that the shell takes it as it is: names of projects and jobs may have anything in them.
_nexus_quote() {
    case $quote in
        \') REPLY=${REPLY//\'/"'\\''"} ;;
        \") REPLY=${REPLY//\\/\\\\} REPLY=${REPLY//\"/\\\"} REPLY=${REPLY//\$/\\\$} REPLY=${REPLY//\`/\\\`} ;;
        *) if [[ -n $REPLY ]]; then printf -v REPLY %q "$REPLY"; fi ;;
    esac
}

_nexus() {
    local word words=() plain=() before='' quote='' REPLY='' i
    # bash parts words at colons and equals signs, which are inside of words here: tag:x, --gpus=2.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 1)) && [[ $word == [:=]* || ${words[-1]} == *[:=] ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    for word in "${words[@]}"; do
        _nexus_unquote "$word"
        plain+=("$REPLY")
    done
    word=$REPLY
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" __complete "${plain[@]}" 2>/dev/null | cut -f1)
    # Of a word that was parted bash replaces the last part alone. Inside of quotes it parts nothing.
    if [[ -z $quote ]]; then
        before=${word%"${word##*[:=]}"}
    fi
    for i in "${!COMPREPLY[@]}"; do
        REPLY=${COMPREPLY[i]#"$before"}
        # History expansion cannot be quoted inside of double quotes.
        if [[ $quote == \" && $REPLY == *!* ]]; then
            unset "COMPREPLY[i]"
            continue
        fi
        _nexus_quote
        COMPREPLY[i]=$REPLY
    done
    COMPREPLY=("${COMPREPLY[@]}")
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:/=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _nexus nexus
