/** How the parts of a new provider are called, by its identifier. */
export interface ProviderNames {
  readonly identifier: string
  /** `acme-crm` is `AcmeCrm`: what its classes begin with. */
  readonly prefix: string
  readonly className: string
  /** `Acme Crm`. */
  readonly label: string
  /** `ACME_CRM`: what its environment variables begin with. */
  readonly constant: string
  /** `acme-crm`: in headers, and in the address of an API that is not there. */
  readonly dashed: string
}

/** Imported from the package by the file that is written. */
const TAKEN = ['IntegrationProvider', 'OAuth2Provider']

/** @param identifier one that a provider can be registered under */
export function providerNames(identifier: string): ProviderNames {
  const words = identifier.split(/[_-]+/).filter((word) => word !== '')
  const capitalized = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1))
  const joined = capitalized.join('')
  const startsWithDigit = /^\d/.test(joined)
  const prefix = startsWithDigit || TAKEN.includes(`${joined}Provider`) ? `Api${joined}` : joined
  const constant = words.join('_').toUpperCase()
  return {
    identifier,
    prefix,
    className: `${prefix}Provider`,
    label: capitalized.join(' '),
    constant: startsWithDigit ? `API_${constant}` : constant,
    dashed: words.join('-'),
  }
}

/** What a new provider can be made with; each is a contract of docs/writing-a-provider.md. */
export const PARTS = ['sync', 'writes', 'webhooks', 'oauth', 'health', 'identity'] as const

export type Part = (typeof PARTS)[number]

/** What `make-provider` writes unless it is told otherwise. */
export const USUAL_PARTS: readonly Part[] = ['sync', 'writes', 'webhooks', 'health']
