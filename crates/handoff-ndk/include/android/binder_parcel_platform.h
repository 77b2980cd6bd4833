/* What Android keeps for its own processes. */
#pragma once

#include <android/binder_parcel.h>

__BEGIN_DECLS

/* Always true here. */
bool AParcel_getAllowFds(const AParcel* parcel);

__END_DECLS
