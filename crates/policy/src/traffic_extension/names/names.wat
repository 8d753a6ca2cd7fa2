;; A module for Proxy-Wasm 0.2.1 that gives what Envoy knows as xds.route_name and xds.cluster_name the names route_name and
;; cluster_name, for the filters after it. Assembled: `wat2wasm names.wat`.
(module
  (import "env" "proxy_get_property"
    (func $get (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_property"
    (func $set (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  ;; A name as Envoy knows it ends in the name without `xds` and the zero after it.
  (data (i32.const 16) "xds\00route_name")
  (data (i32.const 48) "xds\00cluster_name")
  (global $free (mut i32) (i32.const 1024))
  ;; The host asks for room, of which each request has all.
  (func (export "malloc") (param $length i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $free))
    (global.set $free
      (i32.and (i32.add (i32.add (global.get $free) (local.get $length)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  ;; The host writes where a value is, and how long it is, at 0 and 4.
  (func $name (param $path i32) (param $length i32)
    (if (i32.eqz (call $get (local.get $path) (local.get $length) (i32.const 0) (i32.const 4)))
      (then (drop (call $set
        (i32.add (local.get $path) (i32.const 4)) (i32.sub (local.get $length) (i32.const 4))
        (i32.load (i32.const 0)) (i32.load (i32.const 4)))))))
  (func (export "_initialize"))
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_context_create") (param i32 i32))
  (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (i32.const 1))
  (func (export "proxy_on_configure") (param i32 i32) (result i32) (i32.const 1))
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
    (global.set $free (i32.const 1024))
    (call $name (i32.const 16) (i32.const 14))
    (call $name (i32.const 48) (i32.const 16))
    (i32.const 0)))
