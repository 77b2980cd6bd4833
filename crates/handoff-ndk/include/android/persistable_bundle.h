/* Bundles: values of a few types, each under a name. The API is that of Android's NDK, level 35. */
#pragma once

#include <android/binder_parcel.h>
#include <android/binder_status.h>
#include <stdbool.h>
#include <stdint.h>

__BEGIN_DECLS

/* A name has one value; what is put in is copied, and takes the place of what had the name. Names and texts are UTF-8. */
struct APersistableBundle;
typedef struct APersistableBundle APersistableBundle;

enum {
    /* No value of this type has the name. */
    APERSISTABLEBUNDLE_KEY_NOT_FOUND = -1,
    /* A text could not be handed over: its allocator gave no room, or there was none. */
    APERSISTABLEBUNDLE_ALLOCATOR_FAILED = -2,
};

/* Makes room for a text: so many bytes, the zero behind it among them. Whoever asked for the text frees it. */
typedef char* (*APersistableBundle_stringAllocator)(int32_t sizeBytes, void* context);

APersistableBundle* APersistableBundle_new(void);
APersistableBundle* APersistableBundle_dup(const APersistableBundle* bundle);
void APersistableBundle_delete(APersistableBundle* bundle);
bool APersistableBundle_isEqual(const APersistableBundle* lhs, const APersistableBundle* rhs);
/* A bundle that is read is the reader's to delete. */
binder_status_t APersistableBundle_readFromParcel(const AParcel* parcel, APersistableBundle** outBundle);
binder_status_t APersistableBundle_writeToParcel(const APersistableBundle* bundle, AParcel* parcel);
/* How many values are in it. */
int32_t APersistableBundle_size(const APersistableBundle* bundle);
/* How many values had the name: none or one. */
int32_t APersistableBundle_erase(APersistableBundle* bundle, const char* key);

void APersistableBundle_putBoolean(APersistableBundle* bundle, const char* key, bool val);
void APersistableBundle_putInt(APersistableBundle* bundle, const char* key, int32_t val);
void APersistableBundle_putLong(APersistableBundle* bundle, const char* key, int64_t val);
void APersistableBundle_putDouble(APersistableBundle* bundle, const char* key, double val);
void APersistableBundle_putString(APersistableBundle* bundle, const char* key, const char* val);
void APersistableBundle_putBooleanVector(APersistableBundle* bundle, const char* key, const bool* vec, int32_t num);
void APersistableBundle_putIntVector(APersistableBundle* bundle, const char* key, const int32_t* vec, int32_t num);
void APersistableBundle_putLongVector(APersistableBundle* bundle, const char* key, const int64_t* vec, int32_t num);
void APersistableBundle_putDoubleVector(APersistableBundle* bundle, const char* key, const double* vec, int32_t num);
void APersistableBundle_putStringVector(APersistableBundle* bundle, const char* key, const char* const* vec, int32_t num);
void APersistableBundle_putPersistableBundle(APersistableBundle* bundle, const char* key, const APersistableBundle* val);

/* False if no value of this type has the name. */
bool APersistableBundle_getBoolean(const APersistableBundle* bundle, const char* key, bool* val);
bool APersistableBundle_getInt(const APersistableBundle* bundle, const char* key, int32_t* val);
bool APersistableBundle_getLong(const APersistableBundle* bundle, const char* key, int64_t* val);
bool APersistableBundle_getDouble(const APersistableBundle* bundle, const char* key, double* val);
/* The caller's to delete. */
bool APersistableBundle_getPersistableBundle(const APersistableBundle* bundle, const char* key,
                                             APersistableBundle** outBundle);
/* The length of the text, or one of the two numbers above. */
int32_t APersistableBundle_getString(const APersistableBundle* bundle, const char* key, char** val,
                                     APersistableBundle_stringAllocator stringAllocator, void* context);

/* Fill a buffer as far as it reaches; give the bytes that all items take, or one of the two numbers above. */
int32_t APersistableBundle_getBooleanVector(const APersistableBundle* bundle, const char* key, bool* buffer,
                                            int32_t bufferSizeBytes);
int32_t APersistableBundle_getIntVector(const APersistableBundle* bundle, const char* key, int32_t* buffer,
                                        int32_t bufferSizeBytes);
int32_t APersistableBundle_getLongVector(const APersistableBundle* bundle, const char* key, int64_t* buffer,
                                         int32_t bufferSizeBytes);
int32_t APersistableBundle_getDoubleVector(const APersistableBundle* bundle, const char* key, double* buffer,
                                           int32_t bufferSizeBytes);
int32_t APersistableBundle_getStringVector(const APersistableBundle* bundle, const char* key, char** buffer,
                                           int32_t bufferSizeBytes, APersistableBundle_stringAllocator stringAllocator,
                                           void* context);

/* The same with the names that have values of a type. */
#define HANDOFF_KEYS(type)                                                                                        \
    int32_t APersistableBundle_get##type##Keys(const APersistableBundle* bundle, char** outKeys,                  \
                                               int32_t bufferSizeBytes,                                           \
                                               APersistableBundle_stringAllocator stringAllocator, void* context);
HANDOFF_KEYS(Boolean)
HANDOFF_KEYS(Int)
HANDOFF_KEYS(Long)
HANDOFF_KEYS(Double)
HANDOFF_KEYS(String)
HANDOFF_KEYS(BooleanVector)
HANDOFF_KEYS(IntVector)
HANDOFF_KEYS(LongVector)
HANDOFF_KEYS(DoubleVector)
HANDOFF_KEYS(StringVector)
HANDOFF_KEYS(PersistableBundle)
#undef HANDOFF_KEYS

__END_DECLS
