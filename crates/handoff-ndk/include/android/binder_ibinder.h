/* Objects: their classes, references to them, calls through these. The API is that of Android's NDK. */
#pragma once

#include <android/binder_parcel.h>
#include <android/binder_status.h>
#include <stddef.h>
#include <sys/types.h>

__BEGIN_DECLS

typedef uint32_t transaction_code_t;
enum {
    FIRST_CALL_TRANSACTION = 0x00000001,
    LAST_CALL_TRANSACTION = 0x00ffffff,
};

typedef uint32_t binder_flags_t;
enum {
    /* Nobody waits for a reply. */
    FLAG_ONEWAY = 0x01,
};

/* What the objects of one interface have in common. It lives as long as the process. */
struct AIBinder_Class;
typedef struct AIBinder_Class AIBinder_Class;

/* A counted reference to an object, of this process or another. While one is held, an object has one pointer. */
struct AIBinder;
typedef struct AIBinder AIBinder;

/* A reference that does not keep its object. */
struct AIBinder_Weak;
typedef struct AIBinder_Weak AIBinder_Weak;

/* A function that hears that an object's process has ended. */
struct AIBinder_DeathRecipient;
typedef struct AIBinder_DeathRecipient AIBinder_DeathRecipient;

/* Makes the user data of a new object out of what AIBinder_new was given. */
typedef void* (*AIBinder_Class_onCreate)(void* args);
/* Frees user data: nobody can call the object any longer. */
typedef void (*AIBinder_Class_onDestroy)(void* userData);
/* Serves a call: any thread, several at once. */
typedef binder_status_t (*AIBinder_Class_onTransact)(AIBinder* binder, transaction_code_t code, const AParcel* in,
                                                     AParcel* out);
/* Writes text about an object for people. */
typedef binder_status_t (*AIBinder_onDump)(AIBinder* binder, int fd, const char** args, uint32_t numArgs);

/* Null if a function is missing. */
__attribute__((warn_unused_result)) AIBinder_Class* AIBinder_Class_define(const char* interfaceDescriptor,
                                                                          AIBinder_Class_onCreate onCreate,
                                                                          AIBinder_Class_onDestroy onDestroy,
                                                                          AIBinder_Class_onTransact onTransact);
void AIBinder_Class_setOnDump(AIBinder_Class* clazz, AIBinder_onDump onDump);
void AIBinder_Class_disableInterfaceTokenHeader(AIBinder_Class* clazz);
const char* AIBinder_Class_getDescriptor(const AIBinder_Class* clazz);
binder_status_t AIBinder_Class_setTransactionCodeToFunctionNameMap(AIBinder_Class* clazz,
                                                                   const char** transactionCodeToFunctionMap,
                                                                   size_t length);
const char* AIBinder_Class_getFunctionName(const AIBinder_Class* clazz, transaction_code_t code);

/* A new object, with one reference. */
__attribute__((warn_unused_result)) AIBinder* AIBinder_new(const AIBinder_Class* clazz, void* args);

bool AIBinder_isRemote(const AIBinder* binder);
/* False once the object's process is known to be gone. */
bool AIBinder_isAlive(const AIBinder* binder);
binder_status_t AIBinder_ping(AIBinder* binder);
binder_status_t AIBinder_dump(AIBinder* binder, int fd, const char** args, uint32_t numArgs);

/* One who listens more than once, with different cookies, hears as often. STATUS_INVALID_OPERATION for an object of this
 * process. Only while a reference is held does anybody hear. */
binder_status_t AIBinder_linkToDeath(AIBinder* binder, AIBinder_DeathRecipient* recipient, void* cookie);
binder_status_t AIBinder_unlinkToDeath(AIBinder* binder, AIBinder_DeathRecipient* recipient, void* cookie);

/* Outside of a call, this process itself. */
uid_t AIBinder_getCallingUid(void);
/* 0 where the caller's process is not visible here, and in oneway calls on the binder engine. */
pid_t AIBinder_getCallingPid(void);
bool AIBinder_isHandlingTransaction(void);

void AIBinder_incStrong(AIBinder* binder);
void AIBinder_decStrong(AIBinder* binder);
int32_t AIBinder_debugGetRefCount(AIBinder* binder);

/* Says what an object is: false if it is something else, or is of another class already. */
bool AIBinder_associateClass(AIBinder* binder, const AIBinder_Class* clazz);
const AIBinder_Class* AIBinder_getClass(AIBinder* binder);
/* Null unless the object is of this process. */
void* AIBinder_getUserData(AIBinder* binder);

/* A parcel for a call of this object, which must have a class. */
binder_status_t AIBinder_prepareTransaction(AIBinder* binder, AParcel** in);
/* Makes a call. The parcel that goes in is gone afterwards; the one that comes out, if the call succeeded, is the
 * caller's to delete. */
binder_status_t AIBinder_transact(AIBinder* binder, transaction_code_t code, AParcel** in, AParcel** out,
                                  binder_flags_t flags);

__attribute__((warn_unused_result)) AIBinder_Weak* AIBinder_Weak_new(AIBinder* binder);
void AIBinder_Weak_delete(AIBinder_Weak* weakBinder);
/* A strong reference, or null if the object is gone. */
__attribute__((warn_unused_result)) AIBinder* AIBinder_Weak_promote(AIBinder_Weak* weakBinder);
AIBinder_Weak* AIBinder_Weak_clone(const AIBinder_Weak* weakBinder);
bool AIBinder_lt(const AIBinder* lhs, const AIBinder* rhs);
bool AIBinder_Weak_lt(const AIBinder_Weak* lhs, const AIBinder_Weak* rhs);

/* Runs once, on a thread of the runtime. */
typedef void (*AIBinder_DeathRecipient_onBinderDied)(void* cookie);
/* Runs once, when nothing more will be heard: the cookie is used no longer. */
typedef void (*AIBinder_DeathRecipient_onBinderUnlinked)(void* cookie);
__attribute__((warn_unused_result)) AIBinder_DeathRecipient* AIBinder_DeathRecipient_new(
        AIBinder_DeathRecipient_onBinderDied onBinderDied);
void AIBinder_DeathRecipient_setOnUnlinked(AIBinder_DeathRecipient* recipient,
                                           AIBinder_DeathRecipient_onBinderUnlinked onUnlinked);
void AIBinder_DeathRecipient_delete(AIBinder_DeathRecipient* recipient);

/* Another object that adds to this one. The reference that comes out is the caller's. */
binder_status_t AIBinder_getExtension(AIBinder* binder, AIBinder** outExt);
binder_status_t AIBinder_setExtension(AIBinder* binder, AIBinder* ext);

__END_DECLS
