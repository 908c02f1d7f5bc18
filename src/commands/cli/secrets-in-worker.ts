/**
 * What a history must not hold, and what a workflow must not reach. A history keeps its input before anybody can look at it, so
 * that a secret in it is refused with the advice to rotate it. And a caller that may start a workflow is not, for that, allowed to read
 * the worker's machine: a credential can be sent to any server that a `base_url` names.
 *
 * Rule: docs/behaviour/commands-as-workflows.md, "Secrets".
 */

import { secretsOf } from '../../framework/redaction.ts'
import type { CommandAnswer } from '../command-jobs.ts'
import { Refused } from '../refused.ts'

type Fields = Readonly<Record<string, unknown>>
type Environment = Readonly<Record<string, string | undefined>>

const ENVIRONMENT = 'env:'
const REFERENCE = /^env:[^\s=]+$/

/** The variables that the operator has named, and no others. */
export function allowedVariables(names: readonly string[], environment: Environment): Environment {
  return Object.assign(Object.create(null), Object.fromEntries(names.map((name) => [name, environment[name]])))
}

/** @throws Refused before the command has begun */
export function refuseSecrets(command: string, fields: Fields, environment: Environment): void {
  if (command === 'keys' && fields.action === 'generate')
    throw new Refused(
      'usage',
      'A new key is a secret, which no history may hold: `integrations keys generate` prints one.',
    )
  if (command !== 'install' && command !== 'update') return
  if (mayHoldSecret(fields.credential))
    // Without a word of what was given, its names too: any of them may be the secret.
    throw new Refused(
      'usage',
      `A workflow takes a credential only as ${ENVIRONMENT}NAME, out of the worker's environment: "credential": {"token": "${ENVIRONMENT}NAME"}. ` +
        "What was given stands in this workflow's history now: if it is the credential itself, have the provider replace it.",
    )
  if (pairsOf(fields.credential).some(([, value]) => !Object.hasOwn(environment, variableIn(value))))
    // Without the name, which may be the secret itself; and the same whether the worker has such a variable or not.
    throw new Refused(
      'usage',
      `A workflow may read only the variables that \`worker.command_environment\` of its worker names; ${ENVIRONMENT} was given with another one. ` +
        'Name it there, or run `integrations install` where the credential is.',
    )
  for (const [key, value] of pairsOf(fields.metadata)) {
    if (key.includes('=')) throw new Refused('usage', 'metadata: a name has no "=", which ends it on the command line.')
    if (value.startsWith(ENVIRONMENT) || value.startsWith('@') || value === '-')
      throw new Refused(
        'usage',
        `metadata ${key}: a workflow takes the value itself. ${ENVIRONMENT}NAME, @file and - would show everybody what the worker's machine holds.`,
      )
  }
}

/** Whatever is no reference under a name. A name with an "=" would be sent as another one than was looked at. */
function mayHoldSecret(credential: unknown): boolean {
  if (credential === undefined || credential === null) return false
  if (typeof credential !== 'object') return true
  if (Array.isArray(credential) && credential.some((word) => typeof word !== 'string')) return true
  return pairsOf(credential).some(([key, value]) => key === '' || key.includes('=') || !REFERENCE.test(value))
}

/** The credentials that the command reads out of the environment: what it says must show none of them. */
export function secretsNamedBy(command: string, fields: Fields, environment: Environment): readonly string[] {
  if (command !== 'install') return []
  return secretsOf(pairsOf(fields.credential).map(([, value]) => environment[variableIn(value)]))
}

const variableIn = (reference: string): string => reference.slice(ENVIRONMENT.length)

/** A link lets any holder connect an account of theirs: it is for the terminal that asked. */
export function withoutSecrets(
  command: string,
  { document, notes }: Pick<CommandAnswer, 'document' | 'notes'>,
): Pick<CommandAnswer, 'document' | 'notes'> {
  if (command !== 'install' || typeof document !== 'object' || document === null) return { document, notes }
  if (!('connect_url' in document) || document.connect_url === null || !('id' in document)) return { document, notes }
  return {
    document: { ...document, connect_url: null, expires_at: null },
    notes: [...notes, `A person has to connect it: \`integrations oauth-link ${document.id}\` prints the link.`],
  }
}

/** Of an object, or of a list of `key=value`. */
function pairsOf(given: unknown): readonly (readonly [string, string])[] {
  if (Array.isArray(given))
    return given.map((word) => {
      const [key = '', ...value] = String(word).split('=')
      return [key, value.join('=')]
    })
  if (typeof given !== 'object' || given === null) return []
  return Object.entries(given).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)])
}
