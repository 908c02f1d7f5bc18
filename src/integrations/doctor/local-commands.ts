/** Commands of a machine on which those of a remedy are not there as such. Rule: docs/behaviour/doctor.md, "Remedies under npm start". */
import { z } from 'zod'
import { InvalidConfiguration } from '../../framework/errors.ts'

/** What stands in place of `integrations`, of `temporal` and of `psql "$DATABASE_URL"`. */
const LocalCommands = z.object({ integrations: z.string(), temporal: z.string(), psql: z.string() })
export type LocalCommands = Readonly<z.output<typeof LocalCommands>>

const VARIABLE = 'INTEGRATIONS_LOCAL_COMMANDS'

/** Null: the machine has the commands. @throws InvalidConfiguration */
export function localCommands({ [VARIABLE]: text }: NodeJS.ProcessEnv): LocalCommands | null {
  if (text === undefined || text === '') return null
  const { success, data } = LocalCommands.safeParse(parsed(text))
  if (success) return data
  const expected = 'JSON of three commands: {"integrations", "temporal", "psql"}'
  throw new InvalidConfiguration([{ key: VARIABLE, expected, received: JSON.stringify(text) }])
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The same remedy, to be pasted on this machine. */
export function locally(remedy: string, { integrations, temporal, psql }: LocalCommands): string {
  const places = [
    ['integrations', integrations],
    ['temporal', temporal],
    ['psql "$DATABASE_URL"', psql],
  ] as const
  for (const [command, local] of places)
    if (remedy.startsWith(`${command} `)) return `${local}${remedy.slice(command.length)}`
  return remedy
}

/** The same message: a command in it stands between backquotes. */
export function locallySaid(message: string, local: LocalCommands): string {
  return message.replaceAll(/`([^`]+)`/g, (_, quoted: string) => `\`${locally(quoted, local)}\``)
}
