//! Makes what the C side needs: bindings to the installed headers, the glue that
//! `vmodtool.py` generates from `ghost.vcc`, and cfgs for what differs between versions.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The first VRT major version with each difference that the source knows about.
const DIFFERENCES: [(&str, u32); 4] = [
    ("vrt17_via", 17),            // VRT_new_backend takes `via`
    ("vrt19_negative_unset", 19), // an unset time-out is negative, no longer zero
    ("vrt20_backend_wait", 20),   // vrt_backend has backend_wait_*
    ("vrt22_reads_ahead", 22),    // a storage can be read without waiting
];

/// Where the installed Varnish keeps its headers and its vmodtool.
struct Varnish {
    include: Vec<PathBuf>,
    vmodtool: String,
}

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let varnish = installed_varnish()?;
    glue(&varnish, &out)?;
    let bindings = bindings(&varnish)?;
    fs::write(out.join("bindings.rs"), &bindings)?;
    // varnishd's storage calls ghost as long as varnishd runs (varnish/cache/incomplete.rs).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    version_cfgs(&bindings)
}

/// Varnish, or Vinyl Cache as it is called from version 9 on.
fn installed_varnish() -> Result<Varnish> {
    for name in ["varnishapi", "vinylapi"] {
        if let Ok(library) = pkg_config::Config::new().cargo_metadata(false).probe(name) {
            let vmodtool = pkg_config::get_variable(name, "vmodtool")?;
            return Ok(Varnish { include: library.include_paths, vmodtool });
        }
    }
    Err("neither varnishapi.pc nor vinylapi.pc found: install libvarnishapi-dev".into())
}

/// Generate and compile the table that varnishd looks up by symbol.
///
/// rustc's version script hides C symbols in a cdylib. The table is compiled under another
/// name; `publish.rs` copies it into the symbol that varnishd looks for.
fn glue(varnish: &Varnish, out: &Path) -> Result<()> {
    let vcc = out.join("ghost.vcc");
    fs::write(&vcc, module_description()?)?;
    let python = env::var("PYTHON").unwrap_or_else(|_| "/usr/bin/python3".into());
    let status = Command::new(python)
        .args([&varnish.vmodtool, "--strict", "-o", "vcc_if"])
        .arg(&vcc)
        .current_dir(out)
        .status()?;
    if !status.success() {
        return Err(format!("vmodtool failed: {status}").into());
    }
    fs::write(out.join("config.h"), "")?; // vcc_if.c includes it
    cc::Build::new()
        .file(out.join("vcc_if.c"))
        .includes(&varnish.include)
        .include(out)
        .define("Vmod_ghost_Data", "ghost_vmod_data_c")
        .warnings(false)
        .cargo_metadata(false)
        .try_compile("ghost_vcc")?;
    println!("cargo:rustc-link-search=native={}", out.display());
    Ok(())
}

/// `ghost.vcc` with a hash of the build in it: varnishd keeps a copy of a VMOD under a name
/// made from this text, and a rebuilt VMOD under an old name would not be loaded.
fn module_description() -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for source in
        ["src", "build.rs", "ghost.vcc", "wrapper.h", "../ghost-core/src", "../Cargo.lock"]
    {
        println!("cargo:rerun-if-changed={source}");
        hash_tree(Path::new(source), &mut hasher)?;
    }
    for setting in ["PROFILE", "OPT_LEVEL", "CARGO_FEATURE_TEST_PANIC"] {
        env::var(setting).ok().hash(&mut hasher);
    }
    println!("cargo:rerun-if-env-changed=PYTHON");
    let text = fs::read_to_string("ghost.vcc")?;
    Ok(text.replace("@BUILD@", &format!("{:016x}", hasher.finish())))
}

fn hash_tree(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        return entries.iter().try_for_each(|entry| hash_tree(&entry.path(), hasher));
    }
    path.hash(hasher);
    if path.exists() {
        fs::read(path)?.hash(hasher);
    }
    Ok(())
}

fn bindings(varnish: &Varnish) -> Result<String> {
    let vinyl = varnish.include.iter().any(|dir| dir.join("cache/cache_vinyld.h").exists());
    let bindings = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(vinyl.then_some("-DGHOST_VINYL"))
        .clang_args(varnish.include.iter().map(|dir| format!("-I{}", dir.display())))
        .allowlist_function("VCL_DefaultProbe|VRT_.*|WS_.*|http_.*|VFP_.*|HTTP_Setup|VSA_.*|VSLb|VSL|VSB_(cat|bcat)|VTCP_set_read_timeout")
        .allowlist_function("EXP_Rearm|ObjSubscribeEvents|VRB_Iterate|HTTP_IterHdrPack|HTTP_Get(Hdr|Status)Pack|Obj(Has|Get)Attr|ObjIterate|VRY_Match|VSLbt|THR_GetRequest")
        .allowlist_type("backend|vcldir|worker|acct_bereq|vrt_.*|vdi_.*|vfp.*|director|http|http_conn")
        .allowlist_type(
            "oc_flags|oc_exp_flags|busyobj|req|sess|objcore|vcf|vmod_.*|vcl_event_e|ws|suckaddr|vsl_log|VSL_tag_e",
        )
        .allowlist_var(".*_MAGIC|SC_.*|BS_.*|VRT_M.*_VERSION|HTTP_HDR_.*|SLT_.*|VCL_EVENT_.*")
        .allowlist_var("VCL_MET_.*|VCL_RET_(SYNTH|PASS)|VCF_.*|OC_F_.*|OEV_.*|cache_param")
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .generate()?;
    Ok(bindings.to_string())
}

/// The version of the headers decides, not that of a package.
fn version_cfgs(bindings: &str) -> Result<()> {
    // Spaces differ: bindgen formats its output only where there is a rustfmt.
    let major: u32 = bindings
        .split_once("VRT_MAJOR_VERSION")
        .and_then(|(_, rest)| rest.split_once('='))
        .and_then(|(_, rest)| rest.split_once(';'))
        .ok_or("the headers define no VRT_MAJOR_VERSION")?
        .0
        .trim()
        .parse()?;
    for (cfg, since) in DIFFERENCES {
        println!("cargo:rustc-check-cfg=cfg({cfg})");
        if major >= since {
            println!("cargo:rustc-cfg={cfg}");
        }
    }
    Ok(())
}
