//! Native backends: varnishd's own, one per address and VCL.
//!
//! varnishd shares connection pools by address between VCLs, so a new backend finds the
//! connections that are open to its address.

use std::ffi::{c_void, CString};
use std::net::SocketAddr;
use std::ptr;

use super::statistics::Statistics;
use crate::varnish::director::{Director, Refused};
use crate::varnish::sys;
use crate::varnish::vcl::{context, Vcl};

/// The value of a time-out that is not set. varnishd accepts the wrong one without an error
/// and times out at once.
#[cfg(not(vrt19_negative_unset))]
const UNSET: f64 = 0.0;
#[cfg(vrt19_negative_unset)]
const UNSET: f64 = -1.0;

extern "C" {
    fn free(memory: *mut c_void);
}

/// A backend for one address.
pub struct Native {
    director: Director,
}

impl Native {
    /// Create it in a VCL.
    pub fn new(
        vcl: &Vcl,
        address: SocketAddr,
        statistics: &mut Statistics,
    ) -> Result<Self, Refused> {
        let name = CString::new(address.to_string()).unwrap_or_default();
        let resolved = Suckaddr::new(address);
        if resolved.0.is_null() {
            return Err(Refused("varnishd does not understand the address"));
        }
        let mut endpoint =
            sys::vrt_endpoint { magic: sys::VRT_ENDPOINT_MAGIC, ..Default::default() };
        match address {
            SocketAddr::V4(_) => endpoint.ipv4 = resolved.0,
            SocketAddr::V6(_) => endpoint.ipv6 = resolved.0,
        }
        let backend = sys::vrt_backend {
            magic: sys::VRT_BACKEND_MAGIC,
            endpoint: &raw const endpoint,
            vcl_name: name.as_ptr(),
            connect_timeout: UNSET,
            first_byte_timeout: UNSET,
            between_bytes_timeout: UNSET,
            #[cfg(vrt20_backend_wait)]
            backend_wait_timeout: UNSET,
            ..Default::default()
        };
        let visit = vcl.visit().ok_or(Refused::COOLING)?;
        let ctx = context(&visit);
        let cluster = statistics.next();
        // SAFETY: the VCL is warm; varnishd copies what the description refers to.
        let raw = unsafe {
            sys::VRT_new_backend_clustered(
                &raw const ctx,
                cluster,
                &raw const backend,
                #[cfg(vrt17_via)]
                ptr::null(),
            )
        };
        if raw.is_null() {
            return Err(Refused::COOLING);
        }
        // SAFETY: varnishd has just created it, and the reference is ours.
        Ok(Self { director: unsafe { Director::from_raw(raw, vcl) } })
    }

    /// Its director.
    pub fn director(&self) -> &Director {
        &self.director
    }
}

/// An address as varnishd keeps it.
struct Suckaddr(*const sys::suckaddr);

impl Suckaddr {
    fn new(address: SocketAddr) -> Self {
        // struct sockaddr_in and sockaddr_in6, as the kernel lays them out on Linux
        let mut bytes = [0_u8; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, length) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (2_u16, 16)
            }
            SocketAddr::V6(v6) => {
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                (10_u16, 28)
            }
        };
        bytes[..2].copy_from_slice(&family.to_ne_bytes());
        // SAFETY: the bytes are a socket address of that family and length.
        Self(unsafe { sys::VSA_Malloc(ptr::from_ref(&bytes).cast(), length) })
    }
}

impl Drop for Suckaddr {
    fn drop(&mut self) {
        // SAFETY: VSA_Malloc allocated it with malloc; null is fine.
        unsafe { free(self.0.cast_mut().cast()) }
    }
}
