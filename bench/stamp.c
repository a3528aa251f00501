/* A job that tells when it ran: stamp FILE LABEL MILLISECONDS [GATE]

   Appends "S LABEL nanoseconds pid" when it begins and "E LABEL nanoseconds pid" when it is about to leave, each in
   one write. With a GATE, a fifo, it waits in between until nobody holds that open for writing any more. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int told(int file, char what, const char *label) {
    struct timespec now;
    char line[256];
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long nanoseconds = now.tv_sec * 1000000000LL + now.tv_nsec;
    int length = snprintf(line, sizeof line, "%c %s %lld %d\n", what, label, nanoseconds, (int)getpid());
    return length < (int)sizeof line && write(file, line, length) == length;
}

int main(int count, char **words) {
    if (count < 4) return 2;
    int file = open(words[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0 || !told(file, 'S', words[2])) return 3;
    if (count > 4) {
        char byte;
        int gate = open(words[4], O_RDONLY);
        if (gate < 0) return 4;
        while (read(gate, &byte, 1) > 0) {}
    }
    long milliseconds = atol(words[3]);
    struct timespec nap = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    if (milliseconds > 0) nanosleep(&nap, NULL);
    return told(file, 'E', words[2]) ? 0 : 3;
}
