# Completions of nexus for fish.
function __nexus_complete
    # Words without their quotes, as nexus knows them. fish quotes what it inserts.
    set -l words (commandline -opc)
    set -l last (commandline -oct)
    set -q last[1]; or set last ''
    set -l found ($words[1] __complete $words $last 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c nexus -f -a '(__nexus_complete)'
