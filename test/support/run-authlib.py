"""An authorization server of Authlib's on a free port of loopback: client credentials, and assertions by RFC 7523.

The public key of the one client comes on the command line; its secret is "secret".
"""
import json
import os
import secrets
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request  # noqa: E402
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant  # noqa: E402
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload  # noqa: E402
from authlib.oauth2.rfc6750 import BearerTokenGenerator  # noqa: E402
from authlib.oauth2.rfc7523 import JWTBearerGrant, JWTBearerClientAssertion  # noqa: E402
from joserfc.jwk import RSAKey  # noqa: E402

PUBLIC_KEY = RSAKey.import_key(sys.argv[1])


class App(ClientMixin):
    def __init__(self, client_id):
        self.client_id = client_id

    def get_client_id(self):
        return self.client_id

    def get_allowed_scope(self, scope):
        return scope or ""

    def check_client_secret(self, client_secret):
        return secrets.compare_digest(client_secret, "secret")

    def check_endpoint_auth_method(self, method, endpoint):
        return True

    def check_grant_type(self, grant_type):
        return True


CLIENT = App("app")


class Assertions(JWTBearerGrant):
    def get_audiences(self):
        return [TOKEN_ENDPOINT]

    def resolve_issuer_client(self, issuer):
        return CLIENT if issuer == "app" else None

    def resolve_client_public_key(self, client):
        return PUBLIC_KEY

    def authenticate_user(self, subject):
        return subject if subject in ("app", "ada") else None

    def has_granted_permission(self, client, user):
        return True


class Keys(JWTBearerClientAssertion):
    def get_audiences(self):
        return [TOKEN_ENDPOINT, ISSUER]

    def validate_jti(self, claims, jti):
        return jti not in SEEN and (SEEN.add(jti) or True)

    def resolve_client_public_key(self, client):
        return PUBLIC_KEY


class Credentials(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post", "private_key_jwt"]


class Request(OAuth2Request):
    def __init__(self, handler):
        super().__init__("POST", TOKEN_ENDPOINT, headers={name.title(): value for name, value in handler.headers.items()})
        text = handler.rfile.read(int(handler.headers.get("content-length", 0))).decode()
        self._form = dict(parse_qsl(text))
        self.payload = BasicOAuth2Payload(self._form)

    @property
    def form(self):
        return self._form

    @property
    def args(self):
        return {}


class Server(AuthorizationServer):
    def query_client(self, client_id):
        return CLIENT if client_id == "app" else None

    def save_token(self, token, request):
        pass

    def send_signal(self, name, *args, **kwargs):
        pass

    def create_oauth2_request(self, request):
        return request if isinstance(request, OAuth2Request) else Request(request)

    def handle_response(self, status, body, headers):
        return status, body, headers


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        status, body, headers = SERVER.create_token_response(self)
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


SEEN = set()
http = HTTPServer(("127.0.0.1", 0), Handler)
ISSUER = f"http://127.0.0.1:{http.server_port}"
TOKEN_ENDPOINT = f"{ISSUER}/token"
SERVER = Server(["read"])
GENERATOR = BearerTokenGenerator(lambda *a, **k: secrets.token_urlsafe(24), expires_generator=3600)
SERVER.register_token_generator("default", GENERATOR)
SERVER.register_client_auth_method("private_key_jwt", Keys())
SERVER.register_grant(Credentials)
SERVER.register_grant(Assertions)
print(f"Listening at 127.0.0.1:{http.server_port}", flush=True)
http.serve_forever()
