import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, relative, resolve, sep } from 'node:path'
import { z } from 'zod'
import { WEBHOOK_DOORS } from '../../webhooks/catalogue/index.ts'
import { hostlessCommand } from '../command.ts'
import type { Field } from '../fields.ts'
import { choice, flag, optional, provider, text, withDefault } from '../fields.ts'
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
  choice('a provider of docs/webhook-doors.md, whose webhooks it begins with', Object.keys(WEBHOOK_DOORS)),
)

/** A provider that can be registered, and its tests, which pass. */
export const makeProvider = hostlessCommand({
  name: 'make-provider',
  topic: 'Development',
  summary: 'Writes a provider to begin with, and its tests, which pass.',
  examples: [
    'integrations make-provider acme',
    'integrations make-provider acme --with oauth,sync,identity',
    'integrations make-provider acme --like shopify',
    'integrations make-provider acme-crm --dir app/providers --with none --json',
  ],
  places: ['identifier'],
  workflow: { none: 'it writes files where it is called' },
  fields: {
    identifier: provider('what it is registered under: a-z, 0-9, "_" and "-"'),
    dir: withDefault(text('where to', 'folder', 4_096), 'src/providers'),
    with: parts,
    like,
    force: flag('overwrite what is there'),
  },
  async runWithoutHost(_, { identifier, dir, with: wanted, like: named, force }) {
    // A provider like a door of the catalogue takes webhooks.
    const chosen = new Set<Part>(named === undefined ? wanted : [...wanted, 'webhooks'])
    const door = named === undefined ? null : (WEBHOOK_DOORS[named] ?? null)
    const names = providerNames(identifier)
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
const NEEDED_BY_TESTS = ['vitest@4.0', '@electric-sql/pglite']

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
