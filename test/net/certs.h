/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certs -- a directory with certificates made for a test: an authority
 * (ca.pem), and certificates that it has signed.
 */
#ifndef TEST_NET_CERTS_H
#define TEST_NET_CERTS_H

#include "../check.h"
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct certs {
    char dir[64];
    EVP_PKEY *key; /* the authority's */
    X509 *ca;
    long serial;
};

/* "DIR/NAME", in one of four buffers. */
static inline const char *certs_path(const struct certs *c, const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", c->dir, name);
    return path;
}

static inline void certs_write_key(const char *path, EVP_PKEY *key, const char *passphrase)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, key, passphrase ? EVP_aes_128_cbc() : NULL,
                                          (const unsigned char *)passphrase,
                                          passphrase ? (int)strlen(passphrase) : 0, NULL, NULL),
                     1);
    fclose(f);
}

static inline void certs_write(const char *path, X509 *x)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, x), 1);
    fclose(f);
}

static inline void certs_extend(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
}

/* Valid from a day ago for so many seconds from now. */
static inline X509 *certs_new(struct certs *c, const char *name, EVP_PKEY *key, long valid_s)
{
    X509 *x = X509_new();

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++c->serial);
    X509_gmtime_adj(X509_getm_notBefore(x), -86400);
    X509_gmtime_adj(X509_getm_notAfter(x), valid_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_pubkey(x, key);
    return x;
}

static inline void certs_open(struct certs *c)
{
    *c = (struct certs){ .dir = "/tmp/themis-certs-XXXXXX" };
    assert_non_null(mkdtemp(c->dir));
    c->key = EVP_EC_gen("P-256");
    c->ca = certs_new(c, "test authority", c->key, 86400);
    X509_set_issuer_name(c->ca, X509_get_subject_name(c->ca));
    certs_extend(c->ca, c->ca, NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(c->ca, c->key, EVP_sha256());
    certs_write(certs_path(c, "ca.pem"), c->ca);
}

/* DIR/NAME.pem and DIR/NAME.key for the names, for example "DNS:localhost,IP:127.0.0.1". */
static inline void certs_add(struct certs *c, const char *name, const char *names, long valid_s)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = certs_new(c, name, key, valid_s);
    char file[64];

    X509_set_issuer_name(x, X509_get_subject_name(c->ca));
    certs_extend(x, c->ca, NID_subject_alt_name, names);
    X509_sign(x, c->key, EVP_sha256());
    snprintf(file, sizeof file, "%s.pem", name);
    certs_write(certs_path(c, file), x);
    snprintf(file, sizeof file, "%s.key", name);
    certs_write_key(certs_path(c, file), key, NULL);
    X509_free(x);
    EVP_PKEY_free(key);
}

static inline void certs_close(struct certs *c)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", c->dir);
    assert_int_equal(system(command), 0);
    X509_free(c->ca);
    EVP_PKEY_free(c->key);
}

#endif
