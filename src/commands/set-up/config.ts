import { z } from 'zod'
import { table } from '../cli/table.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import type { Values } from '../fields.ts'
import { choice, flag, optional, text } from '../fields.ts'
import { Refused } from '../refused.ts'
import { all, anything } from '../shapes.ts'

const SOURCES = ['default', 'options', 'environment'] as const
const Entry = z.object({
  ...all(z.string(), 'key', 'meaning'),
  value: anything.describe('What is in force; a secret is masked.'),
  source: z.enum(SOURCES),
  default: anything,
  unit: z.string().nullable(),
})

const fields = {
  key: optional(text('only this key, or the keys of this section', 'key')),
  source: optional(choice('only values that come from there', SOURCES, 'source')),
  changed: flag('only values that are not the default'),
}

export const config = command({
  name: 'config',
  topic: 'Set up',
  summary: 'Shows the configuration in force and where each value comes from; secrets are masked.',
  examples: [
    'integrations config --changed',
    'integrations config webhook.max_attempts',
    'integrations config sync --source environment --json',
  ],
  places: ['key'],
  needs: 'host',
  fields,
  output: z.array(Entry),
  routes: [
    route({
      method: 'get',
      path: '/configuration',
      fields,
      output: z.object({ data: z.array(Entry) }),
      run: async ({ integrations }, filter) => ({ data: entries(integrations, filter) }),
    }),
  ],
  run: async ({ integrations }, filter) => entries(integrations, filter),
  show: (found) =>
    found.length === 0
      ? 'Nothing of the kind.'
      : table(
          ['Key', 'Value', 'Source', 'Default', 'Unit'],
          found.map((entry) => [entry.key, given(entry.value), entry.source, given(entry.default), entry.unit]),
        ),
})

function entries({ admin }: CommandContext['integrations'], { key, source, changed }: Values<typeof fields>) {
  const named = admin
    .configuration()
    .filter((entry) => key === undefined || entry.key === key || entry.key.startsWith(`${key}.`))
  if (named.length === 0)
    throw new Refused('usage', `There is no configuration key "${key}". \`integrations config\` lists them all.`, 'key')
  return named.filter(
    (entry) =>
      (source === undefined || entry.source === source) &&
      (!changed || JSON.stringify(entry.value) !== JSON.stringify(entry.default)),
  )
}

/** As it is written in the environment: null is a value, too. */
function given(value: unknown): string {
  return typeof value === 'string' && value !== '' ? value : JSON.stringify(value)
}
