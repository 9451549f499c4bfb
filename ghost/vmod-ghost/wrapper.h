/* What bindgen reads. The private header has http_conn and VFP_Push, hence "$ABI strict". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef GHOST_VINYL
#include "cache/cache_vinyld.h"
#else
#include "cache/cache_varnishd.h"
#endif
#include "cache/cache_backend.h"
#include "cache/cache_director.h"
#include "cache/cache_filter.h"
#include "vcl.h"
#include "vmod_abi.h"
#include "vrt_obj.h"
#include "vsa.h"
#include "vsb.h"
#include "vtcp.h"
