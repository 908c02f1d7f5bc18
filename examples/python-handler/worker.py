"""Handles deliveries and sync items in Python: a workflow for each, on a task queue of its own.

The input has camelCase keys, as docs/behaviour/forwarding.md lists them. What a workflow returns is the result of the attempt.
A workflow that raises fails it; ApplicationError with non_retryable=True allows no other attempt.
"""

import asyncio
import os
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

TASK_QUEUE = "python-handlers"
# Any error fails the attempt. By default all but Temporal's own would make the workflow wait for better code, until its time is over.
FAILS = [Exception]
CONTACTS: dict[str, dict] = {}


@activity.defn
async def store_contact(external_id: str, contact: dict) -> int:
    """Stores by the external id, so that a second attempt changes nothing."""
    CONTACTS[external_id] = contact
    return len(CONTACTS)


@workflow.defn(name="handle_item", failure_exception_types=FAILS)
class HandleItem:
    @workflow.run
    async def run(self, item: dict) -> dict:
        name = item["payload"]["name"]
        if not name:
            raise ApplicationError("a contact without a name is never stored", non_retryable=True)
        # The attempts are those of the row: this one says at once what went wrong.
        stored = await workflow.execute_activity(
            store_contact,
            args=[item["externalId"], item["payload"]],
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        return {"by": "python", "stored": stored}


@workflow.defn(name="handle_webhook", failure_exception_types=FAILS)
class HandleWebhook:
    @workflow.run
    async def run(self, delivery: dict) -> dict:
        # Shows a second attempt; one is made only with webhook.max_attempts above 1.
        if delivery["attempt"] == 1 and "flaky" in delivery.get("body", ""):
            raise ApplicationError("not at the first attempt")
        return {"by": "python", "event": delivery["eventType"], "run": workflow.info().run_id}


async def main() -> None:
    # Give a cluster with TLS or API keys its options here.
    client = await Client.connect(
        os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"),
        namespace=os.environ.get("TEMPORAL_NAMESPACE", "default"),
    )
    worker = Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[HandleItem, HandleWebhook],
        activities=[store_contact],
    )
    print("polling", flush=True)
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
