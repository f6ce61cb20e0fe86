/* SPDX-License-Identifier: Apache-2.0 */
#include "net/authority.h"
#include "base/fault.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES = 1024,
    CA_DAYS = 3650,
    NODE_DAYS = 365,
    DAY_S = 86400,
    SERIAL_BITS = 127,
};

struct authority {
    char dir[PATH_BYTES];
    EVP_PKEY *key;
    X509 *cert;
};

static enum errc fail_ssl(struct error *err, const char *what)
{
    const char *why = ERR_reason_error_string(ERR_get_error());

    ERR_clear_error();
    return fail(err, ERR_INTERNAL, "cannot make %s: %s", what, why ? why : "OpenSSL failed");
}

static enum errc path_in(char out[PATH_BYTES], const char *dir, const char *name, struct error *err)
{
    if ((size_t)snprintf(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES)
        return OK;
    return fail(err, ERR_INVALID, "the path %s/%s is too long", dir, name);
}

static enum errc make_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        return fail_os(err, "make the directory", path);
    return OK;
}

/* ---- files: written beside and renamed, so that a reader finds a whole one ---- */

static enum errc open_new(const char *path, mode_t mode, char temp[PATH_BYTES], FILE **out,
                          struct error *err)
{
    if ((size_t)snprintf(temp, PATH_BYTES, "%s.new", path) >= PATH_BYTES)
        return fail(err, ERR_INVALID, "the path %s is too long", path);
    int fd = fault_errno("authority.open", EACCES)
                 ? -1
                 : open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return fail_os(err, "write", temp);
    *out = fdopen(fd, "w");
    return OK;
}

static enum errc finish_file(FILE *f, const char *temp, const char *path, bool is_ok,
                             struct error *err)
{
    is_ok = !fclose(f) && is_ok && !fault_errno("authority.write", ENOSPC);
    if (is_ok && !rename(temp, path))
        return OK;
    enum errc rc = fail_os(err, "write", path);
    unlink(temp);
    return rc;
}

static enum errc write_key(const char *path, EVP_PKEY *key, struct error *err)
{
    char temp[PATH_BYTES];
    FILE *f;
    enum errc rc = open_new(path, 0600, temp, &f, err);

    if (rc != OK)
        return rc;
    bool is_ok = PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1;
    return finish_file(f, temp, path, is_ok, err);
}

static enum errc write_cert(const char *path, X509 *cert, struct error *err)
{
    char temp[PATH_BYTES];
    FILE *f;
    enum errc rc = open_new(path, 0644, temp, &f, err);

    if (rc != OK)
        return rc;
    return finish_file(f, temp, path, PEM_write_X509(f, cert) == 1, err);
}

/* ---- certificates ---- */

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool is_ok = e && X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
    return is_ok;
}

static bool set_serial(X509 *cert)
{
    BIGNUM *n = BN_new();
    bool is_ok = n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) &&
                 BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));

    BN_free(n);
    return is_ok;
}

/* Begun an hour ago: clocks differ. */
static X509 *cert_new(EVP_PKEY *key, const char *name, long days)
{
    X509 *cert = X509_new();
    bool is_ok = cert && X509_set_version(cert, 2) && set_serial(cert) &&
                 X509_gmtime_adj(X509_getm_notBefore(cert), -3600) &&
                 X509_gmtime_adj(X509_getm_notAfter(cert), days * DAY_S) &&
                 X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                                            (const unsigned char *)name, -1, -1, 0) &&
                 X509_set_pubkey(cert, key);

    if (is_ok)
        return cert;
    X509_free(cert);
    return NULL;
}

static bool make_authority(struct authority *a)
{
    char name[64];
    uint8_t random[4];

    if (RAND_bytes(random, sizeof random) != 1)
        return false;
    snprintf(name, sizeof name, "themis cluster %02x%02x%02x%02x", random[0], random[1], random[2],
             random[3]);
    a->key = EVP_EC_gen("P-256");
    a->cert = a->key ? cert_new(a->key, name, CA_DAYS) : NULL;
    return a->cert && X509_set_issuer_name(a->cert, X509_get_subject_name(a->cert)) &&
           add_extension(a->cert, a->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(a->cert, a->cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
           add_extension(a->cert, a->cert, NID_subject_key_identifier, "hash") &&
           X509_sign(a->cert, a->key, EVP_sha256());
}

static enum errc read_authority(struct authority *a, FILE *key, const char *cert_path,
                                struct error *err)
{
    FILE *f = fopen(cert_path, "re");

    if (!f)
        return fail_os(err, "read", cert_path);
    a->cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    a->key = PEM_read_PrivateKey(key, NULL, NULL, NULL);
    if (a->cert && a->key && X509_check_private_key(a->cert, a->key) == 1)
        return OK;
    ERR_clear_error();
    return fail(err, ERR_INVALID, "%s and the key beside it do not belong together", cert_path);
}

enum errc authority_open(struct authority **out, const char *dir, bool *is_new, struct error *err)
{
    struct authority *a = mem_zalloc(sizeof *a);
    char key_path[PATH_BYTES], cert_path[PATH_BYTES];
    FILE *key = NULL;
    enum errc rc = OK;

    snprintf(a->dir, sizeof a->dir, "%s", dir);
    TRY(path_in(key_path, dir, "ca.key", err));
    TRY(path_in(cert_path, dir, "ca.crt", err));
    TRY(make_dir(dir, err));
    key = fopen(key_path, "re");
    *is_new = !key && errno == ENOENT;
    if (!key && !*is_new)
        TRY(fail_os(err, "read", key_path));
    if (key) {
        TRY(read_authority(a, key, cert_path, err));
    } else {
        if (!make_authority(a))
            TRY(fail_ssl(err, "an authority"));
        TRY(write_cert(cert_path, a->cert, err));
        TRY(write_key(key_path, a->key, err));
    }
    *out = a;
    a = NULL;
out:
    if (key)
        fclose(key);
    authority_close(a);
    return rc;
}

void authority_close(struct authority *a)
{
    if (!a)
        return;
    EVP_PKEY_free(a->key);
    X509_free(a->cert);
    mem_free(a);
}

static X509 *sign_node(struct authority *a, EVP_PKEY *key, const char *name)
{
    X509 *cert = cert_new(key, name, NODE_DAYS);
    char names[300];

    snprintf(names, sizeof names, "DNS:%s", name);
    if (cert && X509_set_issuer_name(cert, X509_get_subject_name(a->cert)) &&
        add_extension(cert, a->cert, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(cert, a->cert, NID_key_usage, "critical,digitalSignature") &&
        add_extension(cert, a->cert, NID_ext_key_usage, "serverAuth,clientAuth") &&
        add_extension(cert, a->cert, NID_subject_alt_name, names) &&
        X509_sign(cert, a->key, EVP_sha256()))
        return cert;
    X509_free(cert);
    return NULL;
}

enum errc authority_issue(struct authority *a, const char *name, struct error *err)
{
    char dir[PATH_BYTES], path[PATH_BYTES];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? sign_node(a, key, name) : NULL;
    enum errc rc = OK;

    if (!cert)
        TRY(fail_ssl(err, "a certificate"));
    TRY(path_in(dir, a->dir, name, err));
    TRY(make_dir(dir, err));
    TRY(path_in(path, dir, "ca.crt", err));
    TRY(write_cert(path, a->cert, err));
    TRY(path_in(path, dir, "node.key", err));
    TRY(write_key(path, key, err));
    TRY(path_in(path, dir, "node.crt", err));
    TRY(write_cert(path, cert, err));
out:
    X509_free(cert);
    EVP_PKEY_free(key);
    return rc;
}
