"""localstripe on a free port of loopback, in memory.

As it is, it listens on every interface, and writes what it knows to /tmp/localstripe.pickle, for all runs of all users.

It is older than some of Stripe's parameters. Added, as https://docs.stripe.com/api/payment_intents has them:
- create takes automatic_payment_methods (ignored), description and receipt_email (kept);
- confirm takes payment_method.
"""
import socket

from aiohttp import web
from localstripe.resources import PaymentIntent, PaymentMethod, Store, extra_apis

Store.dump_to_disk = lambda self: None

known_create = PaymentIntent._api_create.__func__
known_confirm = PaymentIntent._api_confirm


def create(cls, automatic_payment_methods=None, description=None, receipt_email=None, **data):
    intent = known_create(cls, **data)
    intent.description = description
    intent.receipt_email = receipt_email
    return intent


def confirm(id, payment_method=None, **data):
    if payment_method is not None:
        PaymentMethod._api_retrieve(payment_method)  # 404 if there is none
        PaymentIntent._api_retrieve(id).payment_method = payment_method
    return known_confirm(id, **data)


PaymentIntent._api_create = classmethod(create)
# The routes are made of this list when the server is loaded.
CONFIRM = '/v1/payment_intents/{id}/confirm'
extra_apis[:] = [(method, url, confirm if url == CONFIRM else answer) for method, url, answer in extra_apis]

from localstripe.server import app  # noqa: E402

listening = socket.create_server(('127.0.0.1', 0))
print('Listening at 127.0.0.1:%d' % listening.getsockname()[1])
web.run_app(app, sock=listening, print=None)
