# Completions of nexus for fish.
function __nexus_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] __complete $words 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c nexus -f -a '(__nexus_complete)'
