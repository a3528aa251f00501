//! One operation of the interface, put together: what is sent, what comes back, which schemas that takes.

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Required, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

pub const JSON: &str = "application/json";

/// The answer that every operation has beside its own.
pub const PROBLEM: &str = "#/components/responses/Problem";

pub type Schemas = Vec<(String, RefOr<Schema>)>;

pub struct Operation {
    pub method: HttpMethod,
    pub path: &'static str,
    pub schemas: Schemas,
    said: OperationBuilder,
    answer: ResponseBuilder,
    status: &'static str,
}

/// `id` names it for good: programs that are made from the document call their functions so.
pub fn get(path: &'static str, id: &str, summary: &str) -> Operation {
    Operation::new(HttpMethod::Get, path, id, summary)
}

pub fn post(path: &'static str, id: &str, summary: &str) -> Operation {
    Operation::new(HttpMethod::Post, path, id, summary)
}

pub fn put(path: &'static str, id: &str, summary: &str) -> Operation {
    Operation::new(HttpMethod::Put, path, id, summary)
}

pub fn delete(path: &'static str, id: &str, summary: &str) -> Operation {
    Operation::new(HttpMethod::Delete, path, id, summary)
}

impl Operation {
    fn new(method: HttpMethod, path: &'static str, id: &str, summary: &str) -> Operation {
        let said = OperationBuilder::new().operation_id(Some(id)).summary(Some(summary));
        let said = said.response("default", problem("What went wrong."));
        Operation { method, path, said, schemas: vec![], answer: ResponseBuilder::new(), status: "200" }
    }

    /// More than the summary says.
    pub fn about(self, text: &str) -> Operation {
        Operation { said: self.said.description(Some(text)), ..self }
    }

    /// A part of the path.
    pub fn of(self, name: &str, text: &str) -> Operation {
        self.one_of(name, text, String::schema())
    }

    pub fn one_of(self, name: &str, text: &str, values: RefOr<Schema>) -> Operation {
        let part = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
        self.parameter(part.description(Some(text)).schema(Some(values)).build())
    }

    pub fn query<T: IntoParams>(self) -> Operation {
        let given = T::into_params(|| Some(ParameterIn::Query)).into_iter().map(without_null);
        given.fold(self, Operation::parameter)
    }

    pub fn header(self, name: &str, text: &str) -> Operation {
        let header = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Header).required(Required::False);
        self.parameter(header.description(Some(text)).schema(Some(String::schema())).build())
    }

    fn parameter(self, parameter: Parameter) -> Operation {
        Operation { said: self.said.parameter(parameter), ..self }
    }

    pub fn takes<T: ToSchema>(mut self) -> Operation {
        let schema = self.known::<T>();
        self.takes_as(JSON, schema, None)
    }

    pub fn takes_list<T: ToSchema>(mut self) -> Operation {
        let schema = list(self.known::<T>());
        self.takes_as(JSON, schema, None)
    }

    /// What is no JSON.
    pub fn takes_text(self, content_type: &str, text: &str) -> Operation {
        self.takes_as(content_type, String::schema(), Some(text))
    }

    fn takes_as(self, content_type: &str, schema: RefOr<Schema>, text: Option<&str>) -> Operation {
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let body = RequestBodyBuilder::new().content(content_type, content).required(Some(Required::True));
        Operation { said: self.said.request_body(Some(body.description(text).build())), ..self }
    }

    pub fn answers<T: ToSchema>(mut self, text: &str) -> Operation {
        let schema = self.known::<T>();
        self.answers_as(JSON, schema, text)
    }

    pub fn answers_list<T: ToSchema>(mut self, text: &str) -> Operation {
        let schema = list(self.known::<T>());
        self.answers_as(JSON, schema, text)
    }

    /// It is done, and there is no more to say.
    pub fn answers_done(self) -> Operation {
        self.answers_as(JSON, ObjectBuilder::new().schema_type(Type::Object).into(), "It is done.")
    }

    /// Text, bytes, events: what is no JSON. Several such are told one after the other.
    pub fn answers_with(self, content_type: &str, text: &str) -> Operation {
        self.answers_as(content_type, String::schema(), text)
    }

    pub fn answers_as(self, content_type: &str, schema: RefOr<Schema>, text: &str) -> Operation {
        let content = ContentBuilder::new().schema(Some(schema)).build();
        Operation { answer: self.answer.description(text).content(content_type, content), ..self }
    }

    /// The connection is another one from then on.
    pub fn answers_upgrade(self, text: &str) -> Operation {
        Operation { answer: self.answer.description(text), status: "101", ..self }
    }

    pub fn answer_header(self, name: &str, text: &str) -> Operation {
        let header = HeaderBuilder::new().schema(String::schema()).description(Some(text)).build();
        Operation { answer: self.answer.header(name, header), ..self }
    }

    /// A problem that is likely enough to be named; the others are the default.
    pub fn or(self, status: u16, text: &str) -> Operation {
        Operation { said: self.said.response(status.to_string(), problem(text)), ..self }
    }

    /// Another success than the usual one.
    pub fn also(self, status: u16, content_type: &str, text: &str) -> Operation {
        let content = ContentBuilder::new().schema(Some(String::schema())).build();
        let answer = ResponseBuilder::new().description(text).content(content_type, content).build();
        Operation { said: self.said.response(status.to_string(), answer), ..self }
    }

    /// A schema that words refer to.
    pub fn mentions<T: ToSchema>(mut self) -> Operation {
        self.known::<T>();
        self
    }

    /// The schema of one of two kinds of answer.
    pub fn known<T: ToSchema>(&mut self) -> RefOr<Schema> {
        self.schemas.push((T::name().into(), T::schema()));
        T::schemas(&mut self.schemas);
        Ref::from_schema_name(T::name()).into()
    }

    pub fn build(self, tag: &str) -> utoipa::openapi::path::Operation {
        self.said.tag(tag).response(self.status, self.answer.build()).build()
    }
}

/// What may be left out cannot be said to be nothing: there is no null in a query.
fn without_null(mut parameter: Parameter) -> Parameter {
    if let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema
        && let SchemaType::Array(types) = &mut schema.schema_type
    {
        types.retain(|kind| *kind != Type::Null);
        if let [one] = types.as_slice() {
            schema.schema_type = SchemaType::Type(one.clone());
        }
    }
    parameter
}

pub fn problem(text: &str) -> Ref {
    Ref::builder().ref_location(PROBLEM.into()).description(Some(text)).build()
}

fn list(of: RefOr<Schema>) -> RefOr<Schema> {
    ArrayBuilder::new().items(of).into()
}
