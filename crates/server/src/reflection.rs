//! `grpc.reflection` on the ports of xDS: which services there are and what their messages are, for clients such as `grpcurl`.
//!
//! Whoever reaches a port may ask, as with [`health`](crate::health): the answers are published definitions, the same for
//! everybody. Definitions are those of Envoy, Istio and gRPC in [`descriptors::pool`].

use std::sync::Arc;
use std::time::Duration;

use ads::server::{Client, Frames, Mount, Reply, Requests, streamed, trailers_only};
use ads::{Code, Status};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::unfold;
use http::{Request, Response};
use http_body_util::BodyExt;
use prost::Message;
use prost_reflect::{DescriptorPool, FileDescriptor};
use proto_istio::reflection::server_reflection_request::MessageRequest;
use proto_istio::reflection::server_reflection_response::MessageResponse;
use proto_istio::reflection::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The full names of the service; their messages are the same on the wire.
pub(crate) const SERVICES: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];
/// Its one method.
const METHOD: &str = "ServerReflectionInfo";
/// The largest request: it holds the name of a file or a symbol.
const LARGEST: usize = 4 << 10;
/// The most requests of one call.
const MOST: usize = 1000;
/// The most calls at one time.
const CALLS: usize = 64;
/// How long the next request of a call may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers what the services of a server are.
pub(crate) struct Reflection {
    services: Arc<[String]>,
    places: Arc<Semaphore>,
    /// Streams have threads of their own, which reading definitions is not to hold up.
    runtime: Handle,
}

impl Reflection {
    /// Of these services and itself. Answers are made on the runtime of the caller.
    pub(crate) fn new<'a>(services: impl Iterator<Item = &'a str>) -> Self {
        let mut services: Vec<String> = services.chain(SERVICES).map(str::to_owned).collect();
        services.sort();
        Self {
            services: services.into(),
            places: Arc::new(Semaphore::new(CALLS)),
            runtime: Handle::current(),
        }
    }

    fn open(&self, request: Request<Requests>) -> Result<Response<Reply>, Status> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if path.rsplit('/').next() != Some(METHOD) {
            let message = format!("unknown method {path}");
            return Err(Status::new(Code::Unimplemented, message));
        }
        let place = self.places.clone().try_acquire_owned();
        let full = |_| Status::new(Code::ResourceExhausted, "too many calls for reflection");
        let call = Call {
            body,
            frames: Frames::new(LARGEST),
            left: MOST,
            services: self.services.clone(),
            runtime: self.runtime.clone(),
            _place: place.map_err(full)?,
        };
        let answers = unfold(call, |mut call| async move {
            let answer = call.next().await?;
            Some((answer.encode_to_vec(), call))
        });
        Ok(streamed(answers, &Status::OK))
    }
}

impl Mount for Reflection {
    fn call(&self, request: Request<Requests>, _: Client) -> BoxFuture<'static, Response<Reply>> {
        let answer = self.open(request);
        let answer = answer.unwrap_or_else(|status| trailers_only(&status));
        Box::pin(async move { answer })
    }
}

/// A call that asks.
struct Call {
    body: Requests,
    frames: Frames,
    /// How many requests it may still make.
    left: usize,
    services: Arc<[String]>,
    runtime: Handle,
    _place: OwnedSemaphorePermit,
}

impl Call {
    /// The answer to the next request; `None` at the end of the call. An error that is not about one request is the last answer.
    async fn next(&mut self) -> Option<ServerReflectionResponse> {
        let request = tokio::time::timeout(PATIENCE, self.request()).await;
        // Whoever has asked all that it wants and does not say so is not waited for.
        let answer = match request.unwrap_or(Ok(None)) {
            Ok(request) => self.answer(request?).await,
            Err(status) => Err(status),
        };
        Some(answer.unwrap_or_else(|status| {
            self.left = 0;
            let error = Some(MessageResponse::ErrorResponse(error(&status)));
            ServerReflectionResponse {
                message_response: error,
                ..ServerReflectionResponse::default()
            }
        }))
    }

    async fn request(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some(message) = self.frames.pop()? {
                return Ok(Some(message));
            }
            let Some(Ok(part)) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = part.into_data() {
                self.frames.push(data);
            }
        }
    }

    async fn answer(&mut self, message: Bytes) -> Result<ServerReflectionResponse, Status> {
        self.left -= 1;
        if self.left == 0 {
            let message = format!("the limit is {MOST} requests of a call");
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        let asked = ServerReflectionRequest::decode(message);
        let asked = asked.map_err(|e| Status::new(Code::InvalidArgument, e.to_string()))?;
        let services = self.services.clone();
        let answering = self
            .runtime
            .spawn_blocking(move || answer(asked, &services, descriptors::pool()));
        let broken = |_| Status::new(Code::Internal, "internal error");
        answering.await.map_err(broken)
    }
}

/// The answer to a request.
fn answer(
    asked: ServerReflectionRequest,
    services: &[String],
    pool: &DescriptorPool,
) -> ServerReflectionResponse {
    let answered = match &asked.message_request {
        None => Err(Status::new(Code::InvalidArgument, "nothing is asked")),
        Some(MessageRequest::ListServices(_)) => {
            Ok(MessageResponse::ListServicesResponse(ListServiceResponse {
                service: services.iter().cloned().map(named).collect(),
            }))
        }
        Some(MessageRequest::FileByFilename(name)) => {
            found(pool.get_file_by_name(name), "file", name)
        }
        Some(MessageRequest::FileContainingSymbol(symbol)) => {
            found(file_of(pool, symbol), "symbol", symbol)
        }
        Some(MessageRequest::FileContainingExtension(asked)) => {
            let number = u32::try_from(asked.extension_number).ok();
            let message = pool.get_message_by_name(&asked.containing_type);
            let extension = message.zip(number).and_then(|(m, n)| m.get_extension(n));
            let file = extension.map(|extension| extension.parent_file());
            found(file, "extension of", &asked.containing_type)
        }
        Some(MessageRequest::AllExtensionNumbersOfType(name)) => extensions(pool, name),
    };
    let answered = answered.unwrap_or_else(|status| MessageResponse::ErrorResponse(error(&status)));
    ServerReflectionResponse {
        valid_host: asked.host.clone(),
        original_request: Some(asked),
        message_response: Some(answered),
    }
}

fn named(name: String) -> ServiceResponse {
    ServiceResponse { name }
}

fn error(status: &Status) -> ErrorResponse {
    ErrorResponse {
        error_code: i32::from(status.code.number()),
        error_message: status.message.to_string(),
    }
}

/// A file alone: clients ask for those that it imports by their names.
fn found(file: Option<FileDescriptor>, what: &str, name: &str) -> Result<MessageResponse, Status> {
    let file = file.ok_or_else(|| unknown(what, name))?;
    let file = FileDescriptorResponse {
        file_descriptor_proto: vec![file.encode_to_vec().into()],
    };
    Ok(MessageResponse::FileDescriptorResponse(file))
}

fn extensions(pool: &DescriptorPool, name: &str) -> Result<MessageResponse, Status> {
    let message = pool.get_message_by_name(name);
    let message = message.ok_or_else(|| unknown("message", name))?;
    let numbers = message.extensions().map(|extension| extension.number());
    let numbers = ExtensionNumberResponse {
        base_type_name: name.to_owned(),
        extension_number: numbers.filter_map(|n| i32::try_from(n).ok()).collect(),
    };
    Ok(MessageResponse::AllExtensionNumbersResponse(numbers))
}

fn unknown(what: &str, name: &str) -> Status {
    Status::new(Code::NotFound, format!("unknown {what} {name}"))
}

/// The file that a symbol is defined in: a message, service, enum or extension, or a part of one.
fn file_of(pool: &DescriptorPool, symbol: &str) -> Option<FileDescriptor> {
    let whole = |symbol: &str| {
        let message = pool.get_message_by_name(symbol).map(|m| m.parent_file());
        let service = || pool.get_service_by_name(symbol).map(|s| s.parent_file());
        let all = || pool.get_enum_by_name(symbol).map(|e| e.parent_file());
        let extension = || pool.get_extension_by_name(symbol).map(|e| e.parent_file());
        message.or_else(service).or_else(all).or_else(extension)
    };
    whole(symbol).or_else(|| {
        let (parent, part) = symbol.rsplit_once('.')?;
        has_part(pool, parent, part).then(|| whole(parent))?
    })
}

/// Whether a service has a method, or a message a field, of a name.
fn has_part(pool: &DescriptorPool, parent: &str, part: &str) -> bool {
    let service = pool.get_service_by_name(parent);
    let message = pool.get_message_by_name(parent);
    service.is_some_and(|service| service.methods().any(|method| method.name() == part))
        || message.is_some_and(|message| message.get_field_by_name(part).is_some())
}

#[cfg(test)]
mod tests {
    use prost_types::FileDescriptorProto;

    use super::*;

    fn asked(request: MessageRequest) -> MessageResponse {
        let services = ["b.Service".to_owned(), "a.Service".to_owned()];
        let asked = ServerReflectionRequest {
            host: "here".into(),
            message_request: Some(request),
        };
        let answer = answer(asked.clone(), &services, descriptors::pool());
        assert_eq!(answer.valid_host, "here");
        assert_eq!(answer.original_request, Some(asked));
        answer.message_response.unwrap()
    }

    /// The file that answers.
    fn file(request: MessageRequest) -> FileDescriptorProto {
        let MessageResponse::FileDescriptorResponse(files) = asked(request) else {
            panic!("no file answers");
        };
        FileDescriptorProto::decode(files.file_descriptor_proto[0].clone()).unwrap()
    }

    fn symbol(name: &str) -> MessageRequest {
        MessageRequest::FileContainingSymbol(name.to_owned())
    }

    fn error_code(answer: MessageResponse) -> i32 {
        match answer {
            MessageResponse::ErrorResponse(error) => error.error_code,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn each_service_of_the_ports_has_a_definition_whose_imports_can_be_asked_for() {
        let mounted = [
            ads::server::DISCOVERY,
            crate::health::SERVICE,
            crate::issuing::SERVICE,
        ];
        let reflection = Reflection::new(mounted.into_iter());
        assert_eq!(reflection.services.len(), 5);
        for service in reflection.services.iter() {
            let defined = file(symbol(service));
            let (package, name) = service.rsplit_once('.').unwrap();
            assert_eq!(defined.package(), package);
            let mut services = defined.service.iter();
            assert!(services.any(|s| s.name() == name), "{service}");
            for import in defined.dependency {
                let found = file(MessageRequest::FileByFilename(import.clone()));
                assert_eq!(found.name(), import);
            }
        }
    }

    #[test]
    fn symbols_are_found_by_what_they_are_and_what_is_unknown_is_said() {
        let ads = ads::server::DISCOVERY;
        let whole = file(symbol(ads));
        for part in [
            format!("{ads}.StreamAggregatedResources"),
            "envoy.service.discovery.v3.AdsDummy".to_owned(),
        ] {
            assert_eq!(file(symbol(&part)).name, whole.name, "{part}");
        }
        let status = file(symbol("grpc.health.v1.HealthCheckResponse.ServingStatus"));
        assert_eq!(status.package(), "grpc.health.v1");
        for nobody in ["", "shop.Cart", &format!("{ads}.Nothing")] {
            assert_eq!(error_code(asked(symbol(nobody))), 5, "{nobody}");
        }
        let file = MessageRequest::FileByFilename("/etc/passwd".into());
        assert_eq!(error_code(asked(file)), 5);
    }

    #[test]
    fn services_and_extensions_are_listed() {
        let MessageResponse::ListServicesResponse(listed) =
            asked(MessageRequest::ListServices(String::new()))
        else {
            panic!("no list answers");
        };
        let names: Vec<&str> = listed.service.iter().map(|s| &*s.name).collect();
        assert_eq!(names, ["b.Service", "a.Service"]);
        let options = "google.protobuf.FieldOptions".to_owned();
        let MessageResponse::AllExtensionNumbersResponse(all) =
            asked(MessageRequest::AllExtensionNumbersOfType(options.clone()))
        else {
            panic!("no numbers answer");
        };
        let number = all.extension_number[0];
        let found = file(MessageRequest::FileContainingExtension(
            proto_istio::reflection::ExtensionRequest {
                containing_type: options,
                extension_number: number,
            },
        ));
        let mut extensions = found.extension.iter();
        assert!(extensions.any(|extension| extension.number() == number));
    }
}
