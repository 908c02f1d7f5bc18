import { z } from 'zod'
import { columns, command, fieldLines, route } from '../command.ts'
import { flag, id } from '../fields.ts'
import { WebhookRow } from '../shapes.ts'

const Webhook = WebhookRow.extend({ headers: z.record(z.string(), z.array(z.string())) })
const WithPayload = Webhook.extend({ payload: z.string(), encoding: z.enum(['text', 'base64']) })

export const showWebhook = command({
  name: 'show-webhook',
  topic: 'Webhooks',
  summary: 'Shows one webhook; its payload only on request.',
  examples: ['integrations show-webhook 4711', 'integrations show-webhook 4711 --payload --json'],
  places: ['id'],
  workflow: { none: 'a webhook holds what a provider sent, which must not be copied into a history' },
  fields: { id: id('of the webhook'), payload: flag('show what was delivered, too') },
  reach: 'webhook',
  output: Webhook,
  routes: [
    route({
      method: 'get',
      path: '/webhooks/:id',
      summary: 'Shows one webhook with what was delivered, without secrets.',
      fields: { id: id('of the webhook') },
      output: WithPayload,
      run: async ({ integrations }, { id }) => columns(await integrations.admin.operator.webhook(id)),
    }),
  ],
  async run({ integrations }, { id, payload: wanted }) {
    const { payload, encoding, ...webhook } = columns(await integrations.admin.operator.webhook(id))
    return { ...webhook, ...(wanted ? { payload, encoding } : {}) }
  },
  show({ headers, ...fields }) {
    const lines = Object.entries(headers).flatMap(([name, values]) => values.map((value) => [`header ${name}`, value]))
    return [fieldLines(fields), ...lines.map(([name, value]) => `${name}  ${value}`)].join('\n')
  },
})
