/* Stability says which partitions of a device may call an object. Nothing is split so here: these do nothing. */
#pragma once

#include <android/binder_ibinder.h>

__BEGIN_DECLS

void AIBinder_markSystemStability(AIBinder* binder);
void AIBinder_markVendorStability(AIBinder* binder);
void AIBinder_markVintfStability(AIBinder* binder);
void AIBinder_forceDowngradeToLocalStability(AIBinder* binder);
void AIBinder_forceDowngradeToSystemStability(AIBinder* binder);
void AIBinder_forceDowngradeToVendorStability(AIBinder* binder);

static inline void AIBinder_markCompilationUnitStability(AIBinder* binder) { AIBinder_markSystemStability(binder); }

__END_DECLS
