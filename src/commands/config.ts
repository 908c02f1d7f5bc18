import type { Command } from 'commander'
import { Option } from 'commander'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'
import { Refused } from './refused.ts'

const SOURCES = ['default', 'options', 'environment'] as const

interface Filters {
  readonly source?: (typeof SOURCES)[number]
  readonly changed?: boolean
}

/** `integrations config [key]`: what is in force, and where each value comes from. */
export function configCommand(frame: Frame): Command {
  return frame
    .command('config', 'Shows the configuration in force and where each value comes from; secrets are masked.', [
      'integrations config --changed',
      'integrations config webhook.max_attempts',
      'integrations config sync --source environment --json',
    ])
    .argument('[key]', 'only this key, or the keys of this section')
    .addOption(new Option('--source <source>', 'only values that come from there').choices(SOURCES))
    .option('--changed', 'only values that are not the default')
    .action(
      frame.action(
        async ({ integrations }, key: string | undefined, { source, changed }: Filters) => {
          const known = integrations.admin.configuration()
          const named = known.filter(
            (entry) => key === undefined || entry.key === key || entry.key.startsWith(`${key}.`),
          )
          if (named.length === 0)
            throw new Refused(
              'usage',
              `There is no configuration key "${key}". \`integrations config\` lists them all.`,
            )
          const entries = named.filter(
            (entry) =>
              (source === undefined || entry.source === source) &&
              (!changed || JSON.stringify(entry.value) !== JSON.stringify(entry.default)),
          )
          return { document: entries, text: entries.length === 0 ? 'Nothing of the kind.' : textOf(entries) }
        },
        { needs: 'nothing' },
      ),
    )
}

type Entry = ReturnType<import('../create-integrations.ts').Integrations['admin']['configuration']>[number]

function textOf(entries: readonly Entry[]): string {
  return table(
    ['Key', 'Value', 'Source', 'Default', 'Unit'],
    entries.map(({ key, value, source, default: byDefault, unit }) => [
      key,
      given(value),
      source,
      given(byDefault),
      unit,
    ]),
  )
}

/** As it is written in the environment: null is a value, too. */
function given(value: unknown): string {
  return typeof value === 'string' && value !== '' ? value : JSON.stringify(value)
}
