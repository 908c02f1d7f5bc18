import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import { TOKEN_KEYS } from '../../oauth/rules.ts'
import { connectsByOAuth, linkBase, linkText, makeConnectLink } from '../cli/connect-link.ts'
import { Interrupted } from '../cli/failure.ts'
import { valueReader } from '../cli/given-values.ts'
import type { Values as Asked } from '../cli/install-questions.ts'
import { askMissing, askName } from '../cli/install-questions.ts'
import { plain } from '../cli/plain.ts'
import { fieldsOf } from '../cli/schema-fields.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, route, said } from '../command.ts'
import type { Values } from '../fields.ts'
import { flag, id, optional, owner, pairs, record, text } from '../fields.ts'
import { Refused } from '../refused.ts'
import { all, CheckShape, IntegrationShape, moment, rowId } from '../shapes.ts'
import { given, minutes, optionalColumns, storedColumns } from './update.ts'

type Provider = ReturnType<Integrations['admin']['providers']>[number]
type Integration = Awaited<ReturnType<Integrations['get']>>
type Check = Awaited<ReturnType<Integrations['admin']['testCredentials']>>

/** As long as those of `oauth-link` without an option. */
const LINK_HOURS = 1
const VALUES = 'may be repeated; the value also as @file, env:NAME, or - for stdin'

const fields = {
  provider: text('identifier of a registered provider'),
  name: optional(text("what people call it; default the provider's label", 'name')),
  credential: pairs(VALUES),
  metadata: pairs(VALUES),
  owner: optional(owner("the host's record that it belongs to")),
  syncInterval: optional(minutes),
  integration: optional(id('with --force: the one to update')),
  skipCheck: flag("do not ask the provider's health check"),
  force: flag('update an existing one of this name, and keep what fails the check'),
}
type Input = Values<typeof fields>

export const install = command({
  name: 'install',
  topic: 'Integrations',
  summary: 'Stores an integration of a provider, and checks its credentials or prints a link to connect it.',
  examples: [
    'integrations install github',
    'integrations install github --name "Our repository" --credential token=env:GITHUB_TOKEN --metadata owner=acme',
    'pass show stripe | integrations install stripe --credential api_key=- --owner team:7',
    'integrations install github --name "Our repository" --credential token=@/run/secrets/token --force',
  ],
  places: ['provider'],
  stopsItself: true,
  fields,
  output: z.object({
    id: rowId,
    ...all(z.string(), 'name', 'provider'),
    created: z.boolean(),
    check: CheckShape.nullable(),
    webhook_address: z
      .string()
      .nullable()
      .describe('Where its webhooks go; without a base URL the path; null: its provider takes none.'),
    connect_url: z.string().nullish(),
    expires_at: moment.nullish(),
  }),
  routes: [
    route({
      method: 'post',
      path: '/integrations',
      summary: 'Stores an integration of a provider. Its credentials are in no answer.',
      fields: {
        provider: text('identifier of a registered provider'),
        name: text('what people call it'),
        credentials: record("what the provider's schema asks for"),
        ...optionalColumns,
      },
      status: 201,
      needsBody: true,
      output: IntegrationShape,
      location: (_, { id }) => `/integrations/${id}`,
      async run({ integrations, note }, { provider, name, credentials, ...rest }) {
        const { id } = await integrations.create({ provider, name, credentials, ...storedColumns(rest) })
        await note(id, 'create')
        return columns(await integrations.admin.operator.detail(id))
      },
    }),
  ],
  check({ integration, force }) {
    if (integration !== undefined && !force)
      throw new Refused('usage', '--integration names the one to update, which needs --force.')
  },
  run: installed,
  ...said,
})

async function installed(context: CommandContext, input: Input): Promise<Outcome> {
  const { integrations, terminal, signal, note, by, from } = context
  const { provider: key, force, skipCheck, syncInterval: syncIntervalMinutes, owner } = input
  const provider = findProvider(integrations, key)
  const values = await givenValues(context, provider, input)
  const name = input.name ?? (terminal.isInteractive ? await askName(terminal, provider.label) : provider.label)
  const existing = await findExisting(integrations, provider, name, input)
  if (existing !== null && !force) throw alreadyInstalled(existing)

  const isOAuth = connectsByOAuth(provider)
  // An update merges: what is stored already need not be asked for.
  const { credentials, metadata } =
    existing === null && terminal.isInteractive
      ? await askMissing(terminal, provider, values, isOAuth ? TOKEN_KEYS : [])
      : values
  const mayConnect = isOAuth && (await needsPerson(integrations, existing, credentials))
  // Known to be possible before anything is stored. A provider that may do without is asked about the stored integration.
  if (mayConnect && !provider.isAuthorizationOptional) linkBase(integrations)
  const mayCheck = provider.hasHealthCheck && !skipCheck
  const options = given({ owner, syncIntervalMinutes })
  const isEmpty = (record: object): boolean => Object.keys(record).length === 0
  const integration =
    existing === null
      ? // Off until it is checked: no sync and no webhook of what may be taken back, or can't be asked yet.
        await created(context, provider, {
          ...{ provider: key, name, ...options, credentials, metadata },
          isActive: !mayCheck && (!mayConnect || skipCheck),
        })
      : await integrations.update(existing.id, {
          ...{ name, ...options },
          ...(isEmpty(credentials) ? {} : { credentials }),
          ...(isEmpty(metadata) ? {} : { metadata: (stored: object) => ({ ...stored, ...metadata }) }),
        })
  const { id, isActive } = integration
  const takeBack = () => integrations.delete(id, { force: true, by, from })
  // Of one that is taken back again the row goes along.
  await note(id, existing === null ? 'create' : 'update')
  const connects = mayConnect && (!provider.isAuthorizationOptional || (await isNeeded(integrations, id)))
  if (connects && existing === null)
    try {
      linkBase(integrations)
    } catch (error) {
      // Without an address a new one that needs a link is removed again.
      await takeBack()
      throw error
    }
  const check = mayCheck && !connects ? await checked(context, id) : null
  if (check !== 'interrupted' && check !== null && !check.ok)
    await keepOrTakeBack(context, id, { failed: `The health check failed: ${check.error}`, force, takeBack })
  if (check === 'interrupted' || signal.aborted) {
    if (existing === null) await takeBack()
    throw new Interrupted()
  }
  if (existing === null && !connects && !isActive) await integrations.update(id, { isActive: true })
  const webhooks = integrations.admin.operator.webhookAddress(integration)
  const outcome = installOutcome(integration, { isNew: existing === null, check, webhooks })
  const line = webhookLine(integrations, provider, { id, webhooks })
  const last = line === '' ? '' : `${line}${secretLine(integrations, integration)}`
  if (!connects) {
    const document = isOAuth ? { ...outcome.document, connect_url: null, expires_at: null } : outcome.document
    // Also one that an install has left behind whose process died during its check.
    const isOff = existing !== null && !isActive
    const off = isOff ? ` It is switched off: integrations enable ${id} switches it on.` : ''
    return { document, text: `${outcome.text}${off}${last}` }
  }
  const link = await makeConnectLink(integrations, integration, LINK_HOURS)
  await note(id, 'oauth-link connect')
  return {
    document: { ...outcome.document, connect_url: link.url, expires_at: link.expiresAt },
    text: `${outcome.text} It is not connected yet.\n\n${linkText(link, provider.label)}\n${nextSteps(provider, id, isActive)}${last}`,
  }
}

/** Makes it. A schema that asks for what only a person's consent brings can never be met: then its author is named, too. */
async function created(
  { integrations, warn }: CommandContext,
  provider: Provider,
  values: Parameters<Integrations['create']>[0],
): Promise<Integration> {
  try {
    return await integrations.create(values)
  } catch (error) {
    if (connectsByOAuth(provider) && isIntegrationsError(error, 'invalid_credentials') && 'issues' in error) {
      const paths = (error.issues as { path: string }[]).map(({ path }) => path)
      const tokens = TOKEN_KEYS.filter((key) => paths.includes(key) && !Object.hasOwn(values.credentials, key))
      if (tokens.length > 0)
        warn(
          `${tokens.join(', ')} can only come when a person has connected it: the provider's credentialsSchema has to make that optional.`,
        )
    }
    throw error
  }
}

/** Whether somebody has to give access before anything can be asked of the provider. */
async function needsPerson(
  { oauth }: Integrations,
  existing: Integration | null,
  credentials: Asked['credentials'],
): Promise<boolean> {
  if ('access_token' in credentials) return false
  if (existing === null) return true
  const { isConnected, reauth } = await oauth.status(existing.id)
  return !isConnected || reauth !== null
}

const isNeeded = async ({ oauth }: Integrations, id: number): Promise<boolean> =>
  (await oauth.status(id)).needsAuthorization

/** Where the provider has to deliver to, unless the framework registers that by itself. */
function webhookLine(
  { config }: Integrations,
  { contracts }: Provider,
  { id, webhooks }: { readonly id: number; readonly webhooks: string | null },
): string {
  if (webhooks === null) return ''
  if (!contracts.includes('ManagesWebhooks')) return `\nSend its webhooks to ${webhooks}`
  return config.webhook.subscribe
    ? ''
    : `\nSend its webhooks to ${webhooks}, or have that registered: integrations register-webhooks ${id}`
}

/** A provider whose secret is optional is installed without one, and refuses each delivery until it has one. */
function secretLine({ admin }: Integrations, integration: Integration): string {
  if (!admin.operator.lacksWebhookSecret(integration)) return ''
  return `\nIt has no webhook secret yet, so each delivery is refused. Set one: integrations rotate-webhook-secret ${integration.id}`
}

/** What comes after the link. */
function nextSteps({ hasHealthCheck }: Provider, id: number, isActive: boolean): string {
  const steps = [
    ...(hasHealthCheck ? [[`integrations test ${id}`, 'asks the provider whether the access works']] : []),
    ...(isActive ? [] : [[`integrations enable ${id}`, 'switches it on; until then nothing is synced']]),
    [`integrations oauth-link ${id}`, 'prints a new link, if this one is over'],
  ]
  const width = Math.max(...steps.map(([step = '']) => step.length))
  const lines = steps.map(([step = '', effect]) => `  ${step.padEnd(width)}  ${effect}`)
  return ['Once the page says that it is connected:', ...lines].join('\n')
}

function findProvider(integrations: Integrations, key: string): Provider {
  const providers = integrations.admin.providers()
  const found = providers.find((provider) => provider.key === key)
  if (found !== undefined) return found
  const known = providers.length === 0 ? 'none' : providers.map((provider) => provider.key).join(', ')
  throw new Refused('usage', `No provider is registered as "${key}". Registered: ${known}.`)
}

async function givenValues({ terminal, warn }: CommandContext, provider: Provider, input: Input): Promise<Asked> {
  const read = valueReader({
    ...terminal.sources,
    onLiteral: (option, name) => {
      if (option === '--credential')
        warn(
          `The credential "${name}" stands on the command line, where other users and the shell's history see it. ` +
            `Better: ${name}=env:NAME, ${name}=@file, or ${name}=- for stdin.`,
        )
    },
  })
  return {
    credentials: await read('--credential', input.credential, fieldsOf(provider.credentialsSchema)),
    metadata: await read('--metadata', input.metadata, fieldsOf(provider.metadataSchema)),
  }
}

/** The one to update; null when there is none yet. */
async function findExisting(
  integrations: Integrations,
  { key }: Provider,
  name: string,
  { integration: id, force }: Input,
): Promise<Integration | null> {
  if (id !== undefined) {
    const named = await integrations.get(id)
    if (named.provider === key) return named
    throw new Refused('usage', `Integration ${id} is of the provider "${named.provider}", not of "${key}".`)
  }
  const found: Integration[] = []
  for await (const integration of integrations.list({ provider: key }))
    if (integration.name === name) found.push(integration)
  if (found.length > 1 && force)
    throw new Refused(
      'usage',
      `Integrations ${found.map((integration) => integration.id).join(', ')} all have this name: --integration <id> names the one to update.`,
    )
  return found[0] ?? null
}

function alreadyInstalled({ id, name, provider }: Integration): Refused {
  return new Refused(
    'already_installed',
    `"${name}" of the provider "${provider}" is there already, as integration ${id}. --force updates it; --name gives another one its own name.`,
  )
}

/** Until Ctrl-C. */
async function checked({ integrations, signal, progress }: CommandContext, id: number): Promise<Check | 'interrupted'> {
  progress('Asking the provider ...')
  let abort = (): void => {}
  const aborted = new Promise<'interrupted'>((resolve) => {
    abort = () => resolve('interrupted')
  })
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  const result = await Promise.race([integrations.admin.testCredentials(id), aborted])
  signal.removeEventListener('abort', abort)
  return result
}

/** A new one is removed unless it is wanted all the same; one that was there stays, with `--force` it was asked for. */
async function keepOrTakeBack(
  { terminal, warn }: CommandContext,
  id: number,
  { failed, force, takeBack }: { failed: string; force: boolean; takeBack: () => Promise<unknown> },
): Promise<void> {
  if (force || (terminal.isInteractive && (await terminal.prompts.confirm(`${plain(failed)} Keep it all the same?`))))
    return warn(`${failed} Integration ${id} is kept.`)
  try {
    await takeBack()
  } catch (cause) {
    throw new Refused(
      'health_check_failed',
      `${failed} Integration ${id} could not be removed and stays, switched off (${(cause as Error).message}). Then: integrations delete ${id}`,
    )
  }
  throw new Refused('health_check_failed', `${failed} Nothing was stored. --force keeps it all the same.`)
}

interface Outcome {
  readonly document: Readonly<Record<string, unknown>>
  readonly text: string
}

function installOutcome(
  { id, name, provider }: Integration,
  { isNew, check, webhooks }: { readonly isNew: boolean; readonly check: Check; readonly webhooks: string | null },
): Outcome {
  const verdict = check?.ok ? ' The provider takes the credentials.' : ''
  return {
    document: { id, name, provider, created: isNew, check: check && columns(check), webhook_address: webhooks },
    text: `${isNew ? 'Installed' : 'Updated'} integration ${id} ("${name}", ${provider}).${verdict}`,
  }
}
