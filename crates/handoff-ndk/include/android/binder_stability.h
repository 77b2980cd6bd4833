/* Stability says which partitions of a device may call an object. Nothing is split so here: these do nothing. */
#pragma once

#include <android/binder_ibinder.h>

__BEGIN_DECLS

enum {
    /* Calls may say for which partition they are meant; they are made all the same. */
    FLAG_PRIVATE_LOCAL = 0,
    FLAG_PRIVATE_VENDOR = 0x10000000,
};

void AIBinder_markSystemStability(AIBinder* binder);
void AIBinder_markVendorStability(AIBinder* binder);
void AIBinder_markVintfStability(AIBinder* binder);
void AIBinder_forceDowngradeToLocalStability(AIBinder* binder);
void AIBinder_forceDowngradeToSystemStability(AIBinder* binder);
void AIBinder_forceDowngradeToVendorStability(AIBinder* binder);

static inline void AIBinder_markCompilationUnitStability(AIBinder* binder) { AIBinder_markSystemStability(binder); }

__END_DECLS
