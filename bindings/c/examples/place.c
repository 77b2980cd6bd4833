/* Works on one CPU for a while, and is where it was afterwards. */

#include <handoff.h>
#include <stdio.h>

int main(void)
{
    uint16_t cpus[64];
    int count = handoff_allowed_cpus(0, cpus, 64);
    if (count < 1) {
        fprintf(stderr, "%s\n", handoff_last_error());
        return 1;
    }
    printf("allowed: %d\n", count);

    char here[8];
    snprintf(here, sizeof here, "%d", cpus[0]);
    // ANCHOR: guard
    struct handoff_guard *placement = handoff_guard_begin(here, NULL); // CPUs by name or number; no other priority
    if (!placement) {
        fprintf(stderr, "%s\n", handoff_last_error());
        return 1;
    }
    printf("placed on %d, runs on %d\n", handoff_allowed_cpus(0, NULL, 0), handoff_current_cpu() == cpus[0]);
    handoff_guard_end(placement);
    // ANCHOR_END: guard
    printf("restored: %d\n", handoff_allowed_cpus(0, NULL, 0) == count);

    char priority[32];
    if (handoff_get_priority(0, priority, sizeof priority) < 0) {
        fprintf(stderr, "%s\n", handoff_last_error());
        return 1;
    }
    printf("priority: %s\n", priority);

    if (handoff_resolve_cpus("bgi", NULL, 0) == HANDOFF_FAILED)
        printf("refused: %s\n", handoff_last_error());
    return 0;
}
