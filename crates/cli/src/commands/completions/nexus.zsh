#compdef nexus
# Completions of nexus for zsh.
_nexus() {
    local line typed tab=$'\t'
    local -a lines open open_shown whole whole_shown
    # The unfinished word without its quotes, as nexus knows it. zsh quotes what it inserts.
    case $QIPREFIX in
        \'*) typed=$PREFIX ;;
        \"*) typed=${(Q)${:-\"$PREFIX\"}} ;;
        *) typed=${(Q)PREFIX} ;;
    esac
    lines=("${(@f)$("${words[1]}" __complete "${(@Q)words[1,CURRENT-1]}" "$typed" 2>/dev/null)}")
    for line in $lines; do
        local value=${line%%$tab*} shown=${line/$tab/  -- }
        # After these more is to come.
        if [[ $value == *[:/=] ]]; then
            open+=("$value"); open_shown+=("$shown")
        else
            whole+=("$value"); whole_shown+=("$shown")
        fi
    done
    if (( ! $#open && ! $#whole )); then
        _files
        return
    fi
    (( $#whole )) && compadd -l -d whole_shown -a whole
    (( $#open )) && compadd -l -S '' -d open_shown -a open
}
compdef _nexus nexus
