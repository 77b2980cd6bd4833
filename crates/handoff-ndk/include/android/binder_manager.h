/* Services by name. What fails says why on standard error, which is the log here. */
#pragma once

#include <android/binder_ibinder.h>
#include <android/binder_status.h>

__BEGIN_DECLS

#ifdef __cplusplus
enum AServiceManager_AddServiceFlag : uint32_t {
#else
typedef uint32_t AServiceManager_AddServiceFlag;
enum {
#endif
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

/* The reference that comes in is the function's. */
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

/* Calls back with each instance of an interface that the manager's policy file names exactly. */
void AServiceManager_forEachDeclaredInstance(const char* interface, void* context,
                                             void (*callback)(const char* instance, void* context));

/* A service whose process ends once the last client is gone of all its lazy services. Nothing here starts it again. On the binder
 * engine nobody counts the clients, and it stays. */
binder_status_t AServiceManager_registerLazyService(AIBinder* binder, const char* instance);
/* With true, the process does not end by itself. */
void AServiceManager_forceLazyServicesPersist(bool persist);
/* Hears when the first client of any lazy service comes, and when the last one goes. It says true if it has done what there is to
 * do; otherwise the process ends without clients. The next two are to be called in it. */
void AServiceManager_setActiveServicesCallback(bool (*callback)(bool hasClients, void* context), void* context);
/* Takes the names of all lazy services back, unless one has clients. */
bool AServiceManager_tryUnregister(void);
/* Registers those that were taken back. */
void AServiceManager_reRegister(void);

__END_DECLS
