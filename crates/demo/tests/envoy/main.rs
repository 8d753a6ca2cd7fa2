//! What real Envoys make of what they are sent: stock ones of two versions, downloaded into the project's cache.
//!
//! Without Envoy the tests pass and say loudly that they did nothing; with `PILOTHOUSE_REQUIRE_ENVOY=1` they fail.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod accept;
mod annotations;
mod api_store;
mod asked;
mod backend;
mod balance;
mod certs;
mod closed;
mod dumps;
mod edge;
mod extensions;
mod federation;
mod gateway_api;
mod grpc;
mod hosts;
mod ingress;
mod judge;
mod knative;
mod load;
mod loops;
mod mcp;
mod mutual;
mod one_ingress;
mod options;
mod owners;
mod policy;
mod pool;
mod protocols;
mod rig;
mod rotation;
mod security;
mod shop;
mod survival;
mod telemetry;
mod tenants;
mod through;
mod tokens;
mod traffic;
mod verdicts;
mod wasm;

/// Makes of each function a test with every version of Envoy.
macro_rules! with_each_envoy {
    ($($module:ident :: $name:ident,)*) => {
        mod envoy_1_36 {
            $(#[tokio::test] async fn $name() { crate::rig::with("1.36.4", crate::$module::$name).await; })*
        }
        mod envoy_1_40 {
            $(#[tokio::test] async fn $name() { crate::rig::with("1.40.0", crate::$module::$name).await; })*
        }
    };
}

with_each_envoy! {
    shop::the_shop_is_routed_as_its_yaml_says,
    traffic::a_request_that_takes_too_long_is_answered_for,
    traffic::a_failure_is_tried_again_as_often_as_the_route_says,
    traffic::a_matching_header_and_a_rewritten_path_reach_the_backend,
    judge::a_file_that_cannot_be_used_costs_its_cluster_alone,
    judge::what_envoy_would_refuse_costs_nobody_else,
    load::edits_under_load_lose_no_request,
    load::a_route_to_a_service_that_comes_and_goes_with_it_loses_no_request,
    loops::what_leads_back_to_the_gateway_does_not_go_round,
    accept::what_is_generated_for_recorded_scenarios_is_taken,
    tenants::hostile_objects_cost_nobody_else,
    verdicts::tables_of_verdicts_are_those_of_envoys,
    api_store::what_is_applied_steers_traffic_and_a_rollback_takes_it_back,
    balance::weights_mirrors_and_faults_concern_their_share_of_requests,
    balance::a_session_stays_with_its_endpoint,
    balance::a_locality_that_dies_is_replaced_by_another,
    balance::an_endpoint_that_fails_is_left_out,
    protocols::grpc_websocket_and_tcp_pass_the_gateway,
    protocols::headers_are_changed_and_origins_allowed_as_the_route_says,
    annotations::each_annotation_does_what_is_said_of_it,
    asked::only_those_get_in_whom_the_route_allows,
    asked::requests_are_counted_measured_and_answered_by_others,
    edge::tls_ends_at_the_gateway_or_passes_it,
    edge::a_sidecar_lets_out_what_its_sidecar_lists,
    rotation::a_rotated_certificate_is_served_and_no_connection_ends,
    closed::a_policy_that_cannot_be_used_closes_what_it_covers,
    pool::requests_go_to_the_endpoint_that_the_picker_names,
    pool::a_pool_that_fails_open_is_served_without_its_picker,
    hosts::a_host_is_routed_over_any_connection_but_one_that_asks_for_certificates,
    ingress::an_ingress_routes_paths_over_plain_text_and_tls,
    mcp::a_session_of_mcp_stays_with_the_endpoint_that_made_it,
    through::a_service_is_reached_through_its_proxy,
    knative::an_ingress_of_knative_is_served_to_those_who_may_reach_it,
    gateway_api::one_command_makes_a_listening_gateway_of_a_manifest,
    one_ingress::one_command_makes_a_listening_ingress_of_manifests,
    options::options_of_the_edge_follow_a_config_map,
    owners::an_ingress_of_another_namespace_gets_nothing_of_a_host,
    survival::a_broken_file_changes_nothing,
    survival::traffic_outlives_the_control_plane_and_configuration_catches_up,
    survival::a_new_envoy_is_served_from_disk_and_one_that_comes_back_keeps_what_it_has,
    security::a_redirected_sidecar_with_default_settings_refuses_nothing,
    security::permissive_without_certificates_is_plain_text,
    security::strict_without_certificates_takes_nothing,
    mutual::strict_mutual_tls_outlives_rotations_of_certificates_and_of_the_root,
    mutual::a_trust_domain_is_migrated_without_a_lost_request,
    federation::a_partners_root_signs_for_its_own_identities_alone,
    policy::a_denied_request_is_denied_and_a_dry_run_only_logs,
    policy::a_denied_connection_is_closed,
    policy::an_authorizer_is_asked_over_http_and_obeyed,
    policy::an_authorizer_is_asked_over_grpc_and_obeyed,
    tokens::a_valid_token_is_taken_and_an_invalid_one_refused,
    telemetry::access_logs_are_written_as_text_and_as_json,
    telemetry::spans_arrive_at_an_otlp_receiver,
    extensions::a_script_that_an_envoy_filter_inserts_runs,
    extensions::a_rate_limit_that_an_envoy_filter_inserts_limits,
    extensions::a_patch_that_does_not_fit_leaves_the_others_alone,
    extensions::a_traffic_extension_runs_its_script,
    extensions::a_wasm_module_runs,
    extensions::without_the_image_of_a_filter_that_must_run_requests_are_refused,
    wasm::a_plugin_is_told_its_rules_by_ingress_domain_and_service,
    wasm::a_module_is_fetched_for_an_envoy_that_has_no_agent,
    wasm::a_module_that_came_outlives_its_registry_and_a_restart,
}

/// Makes of each function a test with the newest version of Envoy: they wait long, and what they test is of the server alone.
macro_rules! with_newest_envoy {
    ($($module:ident :: $name:ident,)*) => {
        mod newest_envoy {
            $(#[tokio::test] async fn $name() { crate::rig::with("1.40.0", crate::$module::$name).await; })*
        }
    };
}

with_newest_envoy! {
    certs::fifty_hosts_get_their_certificates,
    certs::an_order_outlives_the_server_and_certificates_are_renewed,
    gateway_api::one_command_makes_a_listening_gateway_of_a_store,
}
