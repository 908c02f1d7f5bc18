import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, relative, resolve, sep } from 'node:path'
import { z } from 'zod'
import type { WebhookDoor } from '../../webhooks/catalogue/door.ts'
import { WEBHOOK_DOORS } from '../../webhooks/catalogue/index.ts'
import type { TimestampedHmac } from '../../webhooks/catalogue/timestamped-hmac.ts'
import { TIMESTAMPED_HMAC, timestampedHmac, usualTimestampedHmac } from '../../webhooks/catalogue/timestamped-hmac.ts'
import { hostlessCommand, kebab } from '../command.ts'
import type { Field } from '../fields.ts'
import { choice, flag, optional, provider, text, whole, withDefault } from '../fields.ts'
import { Refused } from '../refused.ts'
import { usualDoor } from '../scaffold/door-text.ts'
import type { Part, ProviderNames } from '../scaffold/names.ts'
import { PARTS, providerNames, USUAL_PARTS } from '../scaffold/names.ts'
import { providerFile } from '../scaffold/provider-file.ts'
import { testFile } from '../scaffold/test-file.ts'
import { writeFiles } from '../scaffold/write-files.ts'

const ALLOWED_PARTS = `any of ${PARTS.join(', ')} with commas between, or none, are allowed`

const parts: Field<readonly Part[]> = {
  about: `what it can do, of ${PARTS.join(', ')}, with commas between; or none (default: ${USUAL_PARTS.join(',')})`,
  placeholder: 'parts',
  isList: true,
  read: (word) => word,
  schema: z
    .array(z.string())
    .transform((words) => words.filter((word) => word !== 'none').flatMap((word) => word.split(',')))
    .pipe(z.array(z.enum(PARTS, { error: ALLOWED_PARTS })))
    .default([...USUAL_PARTS]),
}

const like: Field<string | undefined> = optional(
  choice(
    `a door of docs/webhook-doors.md, with which its webhooks begin: of a provider, or ${TIMESTAMPED_HMAC} for one that is not there`,
    [TIMESTAMPED_HMAC, ...Object.keys(WEBHOOK_DOORS)],
  ),
)

const HEADER_ALLOWED = 'the name of a header is allowed, such as x-acme-signature'
const SEPARATOR_ALLOWED = 'a text of at most 16 characters without line breaks is allowed; it may be empty'

const headerName = (about: string): Field<string | undefined> => ({
  about: `with --like ${TIMESTAMPED_HMAC}: ${about}`,
  placeholder: 'header',
  read: (word) => word,
  schema: z
    .string({ error: HEADER_ALLOWED })
    .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/, HEADER_ALLOWED)
    .toLowerCase()
    .optional(),
})

/** What `--like timestamped-hmac` leaves to say. */
const timestamped = {
  signatureHeader: headerName('the header with the signature (default: x-<identifier>-signature)'),
  timestampHeader: headerName('the header with the time in seconds (default: x-<identifier>-timestamp)'),
  separator: {
    about: 'the same: what is signed between the time and the body (default: ".")',
    placeholder: 'text',
    read: (word: string) => word,
    schema: z
      .string({ error: SEPARATOR_ALLOWED })
      .regex(/^[\x20-\x7e]{0,16}$/, SEPARATOR_ALLOWED)
      .optional(),
  },
  encoding: optional(choice('the same: how the signature is written (default: hex)', ['hex', 'base64', 'base64url'])),
  tolerance: optional(
    whole('the same: how many seconds the time may be off (default: webhook.timestamp_tolerance)', { max: 86_400 }),
  ),
} as const

/** A provider that can be registered, and its tests, which pass. */
export const makeProvider = hostlessCommand({
  name: 'make-provider',
  topic: 'Development',
  summary: 'Writes a provider to begin with, and its tests, which pass.',
  examples: [
    'integrations make-provider acme',
    'integrations make-provider acme --with oauth,sync,identity',
    'integrations make-provider acme --like shopify',
    'integrations make-provider acme --like timestamped-hmac --signature-header x-acme-sign --tolerance 60',
    'integrations make-provider acme-crm --dir app/providers --with none --json',
  ],
  places: ['identifier'],
  workflow: { none: 'it writes files where it is called' },
  fields: {
    identifier: provider('what it is registered under: a-z, 0-9, "_" and "-"'),
    dir: withDefault(text('where to', 'folder', 4_096), 'src/providers'),
    with: parts,
    like,
    ...timestamped,
    force: flag('overwrite what is there'),
  },
  check({ like: named, ...input }) {
    const given = TIMESTAMPED_FIELDS.filter((field) => input[field] !== undefined).map((field) => `--${kebab(field)}`)
    if (named !== TIMESTAMPED_HMAC && given.length > 0)
      throw new Refused(
        'usage',
        `${given.join(' and ')} ${given.length === 1 ? 'goes' : 'go'} with --like ${TIMESTAMPED_HMAC}, and ${named === undefined ? '--like was not given' : `--like ${named} was given`}.`,
      )
  },
  async runWithoutHost(_, { identifier, dir, with: wanted, like: named, force, ...signing }) {
    // A provider like a door takes webhooks.
    const chosen = new Set<Part>(named === undefined ? wanted : [...wanted, 'webhooks'])
    const names = providerNames(identifier)
    const door = doorOf(names, named, signing)
    const files = [
      { name: `${identifier}.ts`, text: providerFile(names, chosen, door) },
      { name: `${identifier}.test.ts`, text: testFile(names, chosen, door) },
    ]
    const written = await writeFiles(dir, files, { overwrite: force })
    return {
      identifier,
      class_name: names.className,
      with: PARTS.filter((part) => chosen.has(part)),
      files: written,
    }
  },
  show: ({ identifier, with: chosen, files }) => nextSteps(providerNames(identifier), new Set(chosen), files),
})

const TIMESTAMPED_FIELDS = Object.keys(timestamped) as (keyof typeof timestamped)[]

function doorOf(
  { dashed }: ProviderNames,
  named: string | undefined,
  given: { readonly [Name in keyof TimestampedHmac]: TimestampedHmac[Name] | undefined },
): WebhookDoor {
  if (named !== TIMESTAMPED_HMAC) return (named === undefined ? undefined : WEBHOOK_DOORS[named]) ?? usualDoor(dashed)
  const usual = usualTimestampedHmac(dashed)
  return timestampedHmac({
    signatureHeader: given.signatureHeader ?? usual.signatureHeader,
    timestampHeader: given.timestampHeader ?? usual.timestampHeader,
    separator: given.separator ?? usual.separator,
    encoding: given.encoding ?? usual.encoding,
    tolerance: given.tolerance,
  })
}

function nextSteps(names: ProviderNames, parts: ReadonlySet<Part>, [provider = '', tests = '']: string[]): string {
  const { identifier, className, label, constant } = names
  const key = /^[a-z]\w*$/.test(identifier) ? identifier : `'${identifier}'`
  const client = `{ id: process.env.${constant}_CLIENT_ID ?? '', secret: process.env.${constant}_CLIENT_SECRET }`
  return [
    'Written:',
    `  ${provider}`,
    `  ${tests}`,
    '',
    'The tests pass as they are:',
    ...installLine(resolve(provider)),
    `  npx vitest run ${tests}`,
    `Put in what is true of ${label}: TODO says where, in both files.`,
    'Register it in integrations.config.ts:',
    `  import { ${className} } from '${moduleName(provider)}'`,
    `  providers: { ${key}: new ${className}(${parts.has('oauth') ? client : ''}) },`,
    'Store an integration of it:',
    `  integrations install ${identifier} --name <name>`,
    'How a provider is written: docs/writing-a-provider.md. How it is tested: docs/testing.md.',
  ].join('\n')
}

const NEEDED = ['durable-integrations', 'zod']
/** Not vitest 4.1: npm 10, which Node 20 and 22 bring, fails on its peers ("Cannot read properties of null"). */
const NEEDED_BY_TESTS = ['vitest@4.0', '@electric-sql/pglite@0.5']

/** A line that installs what Node does not find from this file; none where it finds everything. */
function installLine(file: string): string[] {
  const { resolve: resolver } = createRequire(file)
  const isMissing = (wanted: string): boolean => {
    const name = wanted.replace(/(?<=.)@.*/, '')
    return !(resolver.paths(name) ?? []).some((folder) => existsSync(join(folder, name, 'package.json')))
  }
  const lines = [
    ['npm install', ...NEEDED.filter(isMissing)],
    ['npm install --save-dev', ...NEEDED_BY_TESTS.filter(isMissing)],
  ].filter((words) => words.length > 1)
  return lines.length === 0 ? [] : [`  ${lines.map((words) => words.join(' ')).join(' && ')}`]
}

/**
 * As `integrations.config.ts` names it, which lies in the working directory. Not `.ts`, which compiles only where
 * `allowImportingTsExtensions` is set, and leads nowhere once it is compiled.
 */
function moduleName(path: string): string {
  const found = relative('.', path).split(sep).join('/').replace(/\.ts$/, '.js')
  return /^\.\.?\//.test(found) ? found : `./${found}`
}
