"""The codes of errors that the gateway itself answers with, at `errors[].extensions.code`."""

from __future__ import annotations

from collections.abc import Mapping

ERROR_CODES: Mapping[str, str] = {
    "ANSWER_TOO_LARGE": "The answer, or what is read for it, exceeds `PORTICO_MAX_ANSWER_BYTES`. Ask for smaller pages "
    "or fewer long texts. A mutation has taken effect: repeat it with the same key and a smaller selection.",
    "BAD_REQUEST": "The HTTP request can't be parsed: its body, its parameters, or a part of a multipart body.",
    "BAD_USER_INPUT": "An argument or a variable is not valid. If Portico knows which one, `argument` names it.",
    "BODY_TOO_LARGE": "The body exceeds `PORTICO_MAX_BODY_BYTES`, a multipart body its limit, or a subscription 16,384 "
    "bytes.",
    "CONFLICT": "Other calls kept changing the same objects for two to three seconds. Retry the mutation with the same "
    "idempotency key.",
    "DOCUMENT_NOT_FOUND": "There is no trusted document with this id. The client may be newer than the documents of "
    "the gateway.",
    "DOCUMENT_NOT_TRUSTED": "The gateway runs trusted documents only, and the text is not one: see "
    "`PORTICO_DOCUMENTS`.",
    "EVENTS_LOST": "The gateway missed events of the subscription. Read the data again, and subscribe again.",
    "FORBIDDEN": "The caller does not have the required role, or does not own the object.",
    "GRAPHQL_PARSE_FAILED": "The operation has a syntax error.",
    "GRAPHQL_VALIDATION_FAILED": "The operation does not match the schema.",
    "HEADERS_TOO_LARGE": "The request line and the headers have more than 16,384 bytes.",
    "IDEMPOTENCY_KEY_REUSED": "Another mutation, or the same one with another input, used the idempotency key.",
    "INTERNAL": "The gateway has a fault. To find it in the log, search for the `requestId`.",
    "METHOD_NOT_ALLOWED": "The HTTP method is not supported, or a mutation was sent by GET.",
    "NOT_ACCEPTABLE": "The header `Accept` allows no media type that the gateway can answer with.",
    "NOT_FOUND": "An object that the field must have does not exist, or the caller may not see it. With "
    "status 404: there is nothing at the path.",
    "OPERATION_TOO_COMPLEX": "The operation exceeds a limit. Request smaller pages, fewer fields below them, or fewer "
    "costly fields.",
    "OPERATION_UNDER_WAY": "Another call with the same idempotency key is in flight. Retry the mutation later.",
    "OVERLOADED": "The gateway has too many operations in flight. Nothing was executed. Retry after the seconds in "
    "the header `Retry-After`, or on a WebSocket after `retryAfter`.",
    "PERSISTED_QUERY_HASH_MISMATCH": "`sha256Hash` is not the hash of the text, or names a trusted document with "
    "another text.",
    "PERSISTED_QUERY_NOT_FOUND": "The gateway does not know the text with this hash. Send the text with its hash. "
    "Apollo's link does.",
    "PERSISTED_QUERY_NOT_SUPPORTED": "`PORTICO_PERSISTED_QUERIES` is off. Send texts without hashes. Apollo's link "
    "does.",
    "PREFLIGHT_REQUIRED": "A multipart body lacks the header `GraphQL-Require-Preflight`.",
    "RATE_LIMITED": "The caller, or the anonymous callers of the address, have used up `PORTICO_CALLER_RATE` or "
    "`PORTICO_ADDRESS_RATE`, or a member has used up `PORTICO_SOCIAL_RATE` or `PORTICO_RENAME_RATE`. `retryAfter` says "
    "in how many seconds to retry.",
    "READ_ONLY": "The gateway runs with `PORTICO_READ_ONLY`, and refuses mutations. Nothing was executed.",
    "TIMEOUT": "The operation timed out. A mutation may have succeeded: retry it with the same idempotency key.",
    "TOKEN_EXPIRED": "The token has expired. Get a new one, and send the request again.",
    "TOO_MANY_LIVE_QUERIES": "The gateway has `PORTICO_MAX_LIVE_QUERIES` different live queries. Read without `@live`, "
    "or retry later.",
    "TOO_MANY_OPERATIONS": "The WebSocket has `PORTICO_MAX_OPERATIONS` operations in flight.",
    "TOO_SLOW": "The client did not read its events in time, and the subscription ended.",
    "UNAUTHENTICATED": "The token is missing or not valid.",
    "UNAVAILABLE": "MongoDB, or the server of the public keys, is not reachable, or an import has not built the index "
    "of a search yet. Retry later.",
    "UNSUPPORTED_ENCODING": "The body is compressed.",
    "UNSUPPORTED_MEDIA_TYPE": "The body is not `application/json` in UTF-8.",
    "UPLOAD_INCOMPLETE": "The file did not arrive completely.",
    "UPLOAD_MISSING": "The body does not contain the file.",
    "UPLOAD_TOO_LARGE": "The file exceeds `PORTICO_MAX_UPLOAD_BYTES`.",
}
