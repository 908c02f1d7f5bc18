import { describe, expect, it } from 'vitest'
import { providerNames } from '../../../src/commands/scaffold/names.ts'

describe('the names of a new provider', () => {
  it.each([
    ['acme', 'AcmeProvider', 'Acme', 'ACME', 'acme'],
    ['acme-crm', 'AcmeCrmProvider', 'Acme Crm', 'ACME_CRM', 'acme-crm'],
    ['acme_crm_v2', 'AcmeCrmV2Provider', 'Acme Crm V2', 'ACME_CRM_V2', 'acme-crm-v2'],
    ['a--b__', 'ABProvider', 'A B', 'A_B', 'a-b'],
    ['x', 'XProvider', 'X', 'X', 'x'],
    ['class', 'ClassProvider', 'Class', 'CLASS', 'class'],
  ])('of %s are %s, %s, %s and %s', (identifier, className, label, constant, dashed) => {
    const prefix = className.slice(0, -'Provider'.length)
    expect(providerNames(identifier)).toEqual({ identifier, prefix, className, label, constant, dashed })
  })

  it.each([
    ['2checkout', 'Api2checkoutProvider', 'API_2CHECKOUT'],
    ['1-2', 'Api12Provider', 'API_1_2'],
  ])('of %s begin with a letter: %s, %s', (identifier, className, constant) => {
    expect(providerNames(identifier)).toMatchObject({ className, constant })
  })

  it.each([
    ['integration', 'ApiIntegrationProvider'],
    ['o-auth2', 'ApiOAuth2Provider'],
  ])('of %s are not those of the package: %s', (identifier, className) => {
    expect(providerNames(identifier).className).toBe(className)
  })
})
