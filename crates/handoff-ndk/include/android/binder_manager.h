/* Services by name. What fails says why on standard error, which is the log here. */
#pragma once

#include <android/binder_ibinder.h>
#include <android/binder_status.h>

__BEGIN_DECLS

typedef uint32_t AServiceManager_AddServiceFlag;
enum {
    ADD_SERVICE_ALLOW_ISOLATED = 1 << 0,
};

__attribute__((warn_unused_result)) binder_exception_t AServiceManager_addService(AIBinder* binder,
                                                                                  const char* instance);
__attribute__((warn_unused_result)) binder_exception_t AServiceManager_addServiceWithFlags(
        AIBinder* binder, const char* instance, AServiceManager_AddServiceFlag flags);

/* What is registered now, or null. */
__attribute__((warn_unused_result)) AIBinder* AServiceManager_checkService(const char* instance);
/* Waits five seconds at the most. */
__attribute__((warn_unused_result)) AIBinder* AServiceManager_getService(const char* instance);
/* Waits as long as it takes. */
__attribute__((warn_unused_result)) AIBinder* AServiceManager_waitForService(const char* instance);

typedef void (*AServiceManager_onRegister)(const char* instance, AIBinder* registered, void* cookie);
struct AServiceManager_NotificationRegistration;
typedef struct AServiceManager_NotificationRegistration AServiceManager_NotificationRegistration;

/* Hears of each registration from now on, of the present one first. Not to be deleted inside of onRegister. */
__attribute__((warn_unused_result)) AServiceManager_NotificationRegistration*
AServiceManager_registerForServiceNotifications(const char* instance, AServiceManager_onRegister onRegister,
                                                void* cookie);
void AServiceManager_NotificationRegistration_delete(AServiceManager_NotificationRegistration* notification);

/* Whether the manager's policy file names it; that takes the place of a device's VINTF manifest. */
bool AServiceManager_isDeclared(const char* instance);
bool AServiceManager_isUpdatableViaApex(const char* instance);
void AServiceManager_getUpdatableApexName(const char* instance, void* context,
                                          void (*callback)(const char* apexName, void* context));

/* Registered like any other: nothing here stops or starts it. */
binder_status_t AServiceManager_registerLazyService(AIBinder* binder, const char* instance);
void AServiceManager_forceLazyServicesPersist(bool persist);

__END_DECLS
