/** The promise about what a person is told: where a record came from, by what the host noted and what the sender sent. */
import type { Evidence, Verdict } from './verdict.ts'
import { count } from './verdict.ts'

const ROWS = 1_000

interface Truth {
  readonly reference: string
  /** A record of ours, or the provider's own id of what it sent. */
  readonly from: string
}

/** Calls of handlers and webhooks, chosen by chance. The handlers noted for which delivery they made a call. */
export async function origins({ stack: { sql }, operators: { integrations } }: Evidence): Promise<Verdict> {
  const truths = await sql<Truth[]>`
    (select 'request:' || r.id as reference, 'webhook:' || w.id as from
     from integration_requests r
     join handler_calls c on r.endpoint = '/calls/' || c.id
     join integration_webhooks w on w.delivery_id = c.delivery_id
     order by random() limit ${ROWS / 2})
    union all
    (select 'webhook:' || w.id, coalesce(d.delivery_id, w.delivery_id)
     from integration_webhooks w left join integration_deliveries d on d.id = w.part_of
     where w.delivery_id in (select delivery_id from handler_runs) and (w.part is null or d.id is not null)
     order by random() limit ${ROWS / 2})`
  const broken: string[] = []
  for (const { reference, from } of truths) {
    const explained = await integrations.admin.explain(reference)
    const told = explained.outcome === 'found' ? explained.origins : []
    const isTold = told.some(({ text, link }) => `${link?.kind}:${link?.id}` === from || text.includes(from))
    if (!isTold) broken.push(`${reference} came from ${from}, and not from ${JSON.stringify(told)}`)
  }
  return { promise: 'explain names where a record came from', counts: `${count(truths.length)} records`, broken }
}
