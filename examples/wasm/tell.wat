;; A plugin for Proxy-Wasm 0.2.1. It adds to each response what it was told (x-plugin), and what it knows the request by:
;; the route (x-route) and the cluster (x-cluster). Assembled: `wat2wasm tell.wat`.
(module
  (import "env" "proxy_add_header_map_value"
    (func $add (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_property"
    (func $property (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_buffer_bytes"
    (func $buffer (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 16) "x-plugin")
  (data (i32.const 32) "x-route")
  (data (i32.const 48) "route_name")
  (data (i32.const 64) "x-cluster")
  (data (i32.const 80) "cluster_name")
  ;; Where the host says what it wrote: an address, then a length.
  (global $answer i32 (i32.const 0))
  (global $told (mut i32) (i32.const 0))
  (global $told_length (mut i32) (i32.const 0))
  (global $free (mut i32) (i32.const 1024))
  ;; What the configuration leaves free. Each response begins here.
  (global $start (mut i32) (i32.const 1024))

  ;; The host asks for room. Nothing is ever given back.
  (func (export "malloc") (param $length i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $free))
    (global.set $free
      (i32.and (i32.add (i32.add (global.get $free) (local.get $length)) (i32.const 7)) (i32.const -8)))
    (local.get $at))

  ;; Adds a property of the request as a header, if there is one.
  (func $tell (param $header i32) (param $header_length i32) (param $path i32) (param $path_length i32)
    (if (i32.eqz (call $property (local.get $path) (local.get $path_length)
                                 (global.get $answer) (i32.const 4)))
      (then (drop (call $add (i32.const 2) (local.get $header) (local.get $header_length)
                             (i32.load (global.get $answer)) (i32.load (i32.const 4)))))))

  (func (export "_initialize"))
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_context_create") (param i32 i32))
  (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (i32.const 1))

  ;; The seventh buffer is the configuration.
  (func (export "proxy_on_configure") (param $context i32) (param $length i32) (result i32)
    (if (i32.eqz (call $buffer (i32.const 7) (i32.const 0) (local.get $length)
                               (global.get $answer) (i32.const 4)))
      (then
        (global.set $told (i32.load (global.get $answer)))
        (global.set $told_length (i32.load (i32.const 4)))
        (global.set $start (global.get $free))))
    (i32.const 1))

  ;; The second map has the headers of the response.
  (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
    (global.set $free (global.get $start))
    (drop (call $add (i32.const 2) (i32.const 16) (i32.const 8)
                     (global.get $told) (global.get $told_length)))
    (call $tell (i32.const 32) (i32.const 7) (i32.const 48) (i32.const 10))
    (call $tell (i32.const 64) (i32.const 9) (i32.const 80) (i32.const 12))
    (i32.const 0)))
