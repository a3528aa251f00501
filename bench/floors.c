/* What nexus is held against: the least that a program can do, in C.

   floors loop AT_ONCE COUNT PROGRAM [WORD...]   starts it COUNT times, so many at once, and waits for each
   floors spent PROGRAM [WORD...]                runs it once, and prints when it was started and when it had ended
   floors sync FILE COUNT                        appends 4 KiB and has them on disk, and prints what each took

   Times are nanoseconds of CLOCK_MONOTONIC. It fails where a program does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096

extern char **environ;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int waited(void) {
    int status;
    return wait(&status) > 0 && status == 0;
}

static int loop(int at_once, int count, char **words) {
    pid_t pid;
    int running = 0;
    for (int number = 0; number < count; number++) {
        if (running == at_once) {
            if (!waited()) return 4;
            running--;
        }
        if (posix_spawn(&pid, words[0], NULL, NULL, words, environ)) return 3;
        running++;
    }
    for (; running > 0; running--)
        if (!waited()) return 4;
    return 0;
}

static int spent(char **words) {
    pid_t pid;
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, 1, "/dev/null", O_WRONLY, 0);
    long long begin = now();
    if (posix_spawn(&pid, words[0], &silent, NULL, words, environ)) return 3;
    if (!waited()) return 4;
    printf("%lld %lld\n", begin, now());
    return 0;
}

static int synced(const char *path, int count) {
    static char block[BLOCK];
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    memset(block, 'x', sizeof block);
    for (int number = 0; number < count; number++) {
        long long begin = now();
        if (write(file, block, sizeof block) != sizeof block || fdatasync(file)) return 3;
        printf("%lld\n", now() - begin);
    }
    return 0;
}

int main(int count, char **words) {
    if (count > 4 && !strcmp(words[1], "loop")) return loop(atoi(words[2]), atoi(words[3]), words + 4);
    if (count > 2 && !strcmp(words[1], "spent")) return spent(words + 2);
    if (count == 4 && !strcmp(words[1], "sync")) return synced(words[2], atoi(words[3]));
    return 2;
}
