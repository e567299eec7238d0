// atlas/math/tables.h: polynomial coefficients, written by tools/minimax.py.
#pragma once

#include <array>
#include <cstdint>

namespace hologram::atlas::math::table {

// on [-0.34691, 0.34691], weighted error 2^-28.23
inline constexpr std::array<float, 5> exp_f32{0x1.fffffcp-2f, 0x1.55549p-3f, 0x1.55589ep-5f,
                                              0x1.123ab6p-7f, 0x1.6a5e8cp-10f};
// on [-0.288, 0.4058], weighted error 2^-28.35
inline constexpr std::array<float, 5> exp_shifted_f32{
    0x1.000006p-1f, 0x1.5554d4p-3f, 0x1.554432p-5f, 0x1.11f3cep-7f, 0x1.7fa9f6p-10f};
// on [-0.34691, 0.34691], weighted error 2^-57.87
inline constexpr std::array<double, 10> exp_f64{
    0x1.000000000000ap-1,  0x1.55555555554fcp-3,  0x1.5555555550681p-5,  0x1.1111111127209p-7,
    0x1.6c16c1848ae9bp-10, 0x1.a01a012dfa178p-13, 0x1.a019991c9b5aap-16, 0x1.71df1c90c4674p-19,
    0x1.28ae429bb4eb4p-22, 0x1.ad8e461c38da2p-26};
// on [-0.34691, 0.34691], weighted error 2^-31.0
inline constexpr std::array<float, 6> expm1_f32{0x1p-1f,        0x1.555554p-3f,  0x1.5554fp-5f,
                                                0x1.111316p-7f, 0x1.6d4396p-10f, 0x1.9e0c3cp-13f};
// on [-0.34691, 0.34691], weighted error 2^-61.52
inline constexpr std::array<double, 11> expm1_f64{0x1p-1,
                                                  0x1.5555555555559p-3,
                                                  0x1.555555555554dp-5,
                                                  0x1.111111110f64bp-7,
                                                  0x1.6c16c16c1ab06p-10,
                                                  0x1.a01a01b00a4f9p-13,
                                                  0x1.a01a018e0e42ap-16,
                                                  0x1.71ddf7f837faep-19,
                                                  0x1.27e5133163e27p-22,
                                                  0x1.af5f5dd0cd0a1p-26,
                                                  0x1.1f1a594658e8bp-29};
// on [-0.34691, 0.34691], weighted error 2^-28.28
inline constexpr std::array<double, 5> exp_brief_f64{0x1.fffffb946fe4fp-2, 0x1.555490a519f76p-3,
                                                     0x1.5558f4c51c245p-5, 0x1.123a67844bf1bp-7,
                                                     0x1.6a2349fe04723p-10};
// on [-0.34691, 0.34691], weighted error 2^-31.95
inline constexpr std::array<double, 6> expm1_brief_f64{
    0x1.0000002622028p-1, 0x1.555554ef0870ap-3,  0x1.5554b09cff64ap-5,
    0x1.111189d9eecafp-7, 0x1.6d72923da09f1p-10, 0x1.a032b915bab56p-13};
// on [-0.5, 0.5], weighted error 2^-28.26
inline constexpr std::array<float, 5> exp2_f32{0x1.ebfbdcp-3f, 0x1.c6af88p-5f, 0x1.3b2ddap-7f,
                                               0x1.5f0416p-10f, 0x1.41705cp-13f};
// on [-0.33333, 0.33333], weighted error 2^-27.67
inline constexpr std::array<float, 8> log_f32{0x1.555506p-2f,  -0x1.fffefp-3f, 0x1.99d064p-3f,
                                              -0x1.559ddap-3f, 0x1.1ed3fep-3f, -0x1.f30f7p-4f,
                                              0x1.1e731cp-3f,  -0x1.080a9cp-3f};
// on [0.0, 0.029467], weighted error 2^-58.48
inline constexpr std::array<double, 7> log_f64{
    0x1.5555555555593p-1, 0x1.999999997fa55p-2, 0x1.2492494221c2dp-2, 0x1.c71c51e0cb89dp-3,
    0x1.7466477e6457ap-3, 0x1.39a0d5dc5d9dp-3,  0x1.2f0eb1b3aec81p-3};
// on [0.0, 0.029467], weighted error 2^-36.6
inline constexpr std::array<double, 4> log_brief_f64{0x1.555554fd410dp-1, 0x1.999a7b3c190dap-2,
                                                     0x1.2438a84df4b1dp-2, 0x1.e2fdd8c99d135p-3};
// on [0.0, 0.029467], weighted error 2^-65.27
inline constexpr std::array<double, 7> log_tail_f64{
    0x1.9999999999b33p-2, 0x1.2492492457799p-2, 0x1.c71c722deb7b3p-3, 0x1.745ce9b454075p-3,
    0x1.3b1ef4c5f04e4p-3, 0x1.0f7f1856613b9p-3, 0x1.0e4a77799b2cep-3};
// 16 pieces of [0.0, 9.0226], weighted error 2^-27.0
inline constexpr std::array<float, 16> tanh_centre{
    0x1.80f672p-1f, 0x1.0d794cp+0f, 0x1.5a775p+0f,  0x1.a7753ep+0f, 0x1.0d78ccp+1f, 0x1.5a7718p+1f,
    0x1.a7753ep+1f, 0x1.f4735p+1f,  0x1.33f9ep+2f,  0x1.80f8aep+2f, 0x1.ce069cp+2f, 0x1.0a2b24p+3f,
    0x0p+0f,        0x1.cdf492p-3f, 0x1.80f64ep-2f, 0x1.0d7964p-1f};
inline constexpr std::array<float, 16> tanh_0{
    0x1.45c518p-1f, 0x1.90cec6p-1f, 0x1.bfec44p-1f, 0x1.dbdd46p-1f, 0x1.f106eep-1f, 0x1.fb7516p-1f,
    0x1.fea1b4p-1f, 0x1.ff96b6p-1f, 0x1.ffeeacp-1f, 0x1.fffe7p-1f,  0x1.ffffdcp-1f, 0x1.fffffcp-1f,
    0x0p+0f,        0x1.c646e6p-3f, 0x1.6fcbd8p-2f, 0x1.ee245cp-2f};
inline constexpr std::array<float, 16> tanh_1{
    0x1.30b8fcp-1f,  0x1.8c792ep-2f,  0x1.e08a22p-3f,  0x1.16e23ep-3f,
    0x1.d820b4p-5f,  0x1.217058p-6f,  0x1.5dd42ep-8f,  0x1.a4fcb2p-10f,
    0x1.153fd2p-12f, 0x1.9005e8p-16f, 0x1.2004cap-19f, 0x1.000176p-22f,
    0x1.3951d6p-32f, 0x1.e6cf04p-1f,  0x1.bdf2bep-1f,  0x1.88c5f6p-1f};
inline constexpr std::array<float, 16> tanh_2{
    -0x1.83c564p-2f,  -0x1.365ed2p-2f,  -0x1.a4667ep-3f,  -0x1.0333cp-3f,
    -0x1.ca522p-5f,   -0x1.1edf0cp-6f,  -0x1.5ce5cp-8f,   -0x1.a4a5bp-10f,
    -0x1.153548p-12f, -0x1.9002fap-16f, -0x1.2003fep-19f, -0x1.ffe34p-23f,
    -0x1.267626p-23f, -0x1.afed0ep-3f,  -0x1.40590ep-2f,  -0x1.7b1332p-2f};
inline constexpr std::array<float, 16> tanh_3{
    0x1.5c98f4p-5f,  0x1.bb3bfep-4f,  0x1.9f376p-4f,   0x1.27e4ccp-4f,
    0x1.1f8f94p-5f,  0x1.77ac8ep-7f,  0x1.ceadd2p-9f,  0x1.17f582p-10f,
    0x1.70b028p-13f, 0x1.0a11b8p-16f, 0x1.7f25ep-20f,  0x1.54fcc4p-23f,
    -0x1.555288p-2f, -0x1.14a2b6p-2f, -0x1.6c79b4p-3f, -0x1.3bb37cp-4f};
inline constexpr std::array<float, 16> tanh_4{
    0x1.95e858p-4f,   0x1.0ba014p-6f,   -0x1.4b7ecp-6f,   -0x1.97b3b4p-6f,
    -0x1.f98866p-7f,  -0x1.6a310ep-8f,  -0x1.c96ad2p-10f, -0x1.171f34p-11f,
    -0x1.709884p-14f, -0x1.0a20e4p-17f, -0x1.7f30a4p-21f, -0x1.57f242p-24f,
    -0x1.404338p-12f, 0x1.0ad1f8p-3f,   0x1.5883c4p-3f,   0x1.49f856p-3f};
inline constexpr std::array<float, 16> tanh_5{
    -0x1.03abeep-4f, -0x1.49ab32p-5f, -0x1.680ce4p-7f, 0x1.0ee332p-9f,
    0x1.26d6dp-8f,   0x1.0e86b2p-9f,  0x1.69fccap-11f, 0x1.c13bdap-13f,
    0x1.391c2cp-15f, 0x1.c4ba8ap-19f, 0x1.4613acp-22f, 0x1.1c15f4p-25f,
    0x1.192936p-3f,  0x1.50dad2p-4f,  0x1.2ccccap-6f,  -0x1.17932ap-5f};
inline constexpr std::array<float, 16> tanh_6{
    0x1.b88bfcp-11f,  0x1.33dd1cp-6f,   0x1.699eeap-7f,   0x1.a97cb4p-10f,
    -0x1.ea5c0ep-12f, -0x1.2ff7d2p-11f, -0x1.db1b5p-13f,  -0x1.24b96p-14f,
    -0x1.9f370ep-17f, -0x1.2cdb08p-20f, -0x1.b26fe8p-24f, -0x1.3b467ep-27f,
    -0x1.8437b6p-6f,  -0x1.272a22p-4f,  -0x1.24f768p-4f,  -0x1.ad7f4ep-4f};
// on [0.0, 0.2501], weighted error 2^-28.2
inline constexpr std::array<double, 4> sin_quarter_f64{0x1.921fb52e6128fp+0, -0x1.4abbb8f9ac988p-1,
                                                       0x1.465e8f3d5c7eep-4, -0x1.2d92799ca511ep-8};
// on [0.0, 0.2501], weighted error 2^-34.05
inline constexpr std::array<double, 5> cos_quarter_f64{0x1.ffffffff84783p-1, -0x1.3bd3cc6e6a15cp+0,
                                                       0x1.03c1daa6336f4p-2, -0x1.55c4e6abe48d8p-6,
                                                       0x1.d99e76ada6bb6p-11};
// on [0.0, 0.61747], weighted error 2^-57.88
inline constexpr std::array<double, 6> sin_f64{-0x1.5555555555548p-3,  0x1.111111110f755p-7,
                                               -0x1.a01a019bf0909p-13, 0x1.71de355d52aaap-19,
                                               -0x1.ae5e52eb61778p-26, 0x1.5d8db8363309dp-33};
// on [0.0, 0.61747], weighted error 2^-63.92
inline constexpr std::array<double, 6> cos_f64{0x1.555555555554bp-5,  -0x1.6c16c16c15012p-10,
                                               0x1.a01a019c8e8b1p-16, -0x1.27e4f7f0eb92dp-22,
                                               0x1.1ee9db3c5161bp-29, -0x1.8fa628774bbd3p-37};
// on [0.0, 0.2501], weighted error 2^-19.33
inline constexpr std::array<float, 3> sin_quarter_bf16{0x1.921f8ep+0f, -0x1.4aa616p-1f,
                                                       0x1.3f3ecap-4f};
// on [0.0, 0.2501], weighted error 2^-16.37
inline constexpr std::array<float, 3> cos_quarter_bf16{0x1.fffe74p-1f, -0x1.3ba0e6p+0f,
                                                       0x1.f73ec6p-3f};
inline constexpr std::array<float, 16> quarters_bf16_0{
    0x1.44p+39f,   0x1.45f2p+39f, 0x1.f306p+31f, 0x1.06dcp+23f, 0x1.b938p+14f, 0x1.391p+6f,
    0x1.1054p-2f,  0x1.529p-12f,  0x1.4fep-19f,  0x1.f84ep-25f, 0x1.3ab8p-35f, 0x1.5f44p-42f,
    0x1.a3eap-49f, 0x1.ea68p-57f, 0x1.a6e8p-67f, 0x1.bb8p-73f};
inline constexpr std::array<float, 16> quarters_bf16_1{
    0x1.f306p+31f, 0x1.06dcp+23f, 0x1.b938p+14f, 0x1.391p+6f,   0x1.1054p-2f,  0x1.529p-12f,
    0x1.4fep-19f,  0x1.f84ep-25f, 0x1.3ab8p-35f, 0x1.5f44p-42f, 0x1.a3eap-49f, 0x1.ea68p-57f,
    0x1.a6e8p-67f, 0x1.bb8p-73f,  0x1.81b6p-81f, 0x1.b6c4p-89f};
inline constexpr std::array<float, 16> quarters_bf16_2{
    0x1.b9391p+14f,  0x1.391054p+6f,  0x1.1054a8p-2f,  0x1.529fc2p-12f,
    0x1.4fe13ap-19f, 0x1.f84ebp-25f,  0x1.3abe9p-35f,  0x1.5f47d4p-42f,
    0x1.a3ea6ap-49f, 0x1.ea69bcp-57f, 0x1.a6ee06p-67f, 0x1.bb81b6p-73f,
    0x1.81b6c6p-81f, 0x1.b6c52cp-89f, 0x1.8a5664p-98f, 0x1.2b3278p-105f};
// on [0.0, 0.2501], weighted error 2^-59.82
inline constexpr std::array<double, 13> asin_f64{
    0x1.5555555555578p-3, 0x1.333333332df17p-4, 0x1.6db6db722b553p-5, 0x1.f1c71a8ba2c92p-6,
    0x1.6e8bdfe5e6ba1p-6, 0x1.1c49de0e4179bp-6, 0x1.ca21431479b6ap-7, 0x1.75779741c0ep-7,
    0x1.618a80d4113e3p-7, 0x1.e15eb99cbc1bcp-9, 0x1.6500ef5d3f939p-6, -0x1.59f4faa1ad42p-6,
    0x1.0be3ea2c69a7ap-5};
// on [0.0, 0.2501], weighted error 2^-31.72
inline constexpr std::array<double, 6> asin_brief_f64{0x1.55554c30231c8p-3, 0x1.333891f2570cp-4,
                                                      0x1.6cabb59f39e05p-5, 0x1.04aafdbf238fp-5,
                                                      0x1.d7a821f7008eep-7, 0x1.33d70bc4d6d15p-5};
// on [0.0, 0.17174], weighted error 2^-59.47
inline constexpr std::array<double, 11> atan_f64{
    -0x1.555555555553dp-2, 0x1.9999999995889p-3, -0x1.24924922ae56ep-3, 0x1.c71c70e66f76cp-4,
    -0x1.745cf8e619161p-4, 0x1.3b1119ac2cf12p-4, -0x1.10ebbd3ad588ep-4, 0x1.df0f7d34c4d1fp-5,
    -0x1.9cd338b7097a8p-5, 0x1.37d5dd60375e3p-5, -0x1.2568a8696e74bp-6};
// on [0.0, 0.17174], weighted error 2^-30.5
inline constexpr std::array<double, 5> atan_brief_f64{-0x1.555549509a4c4p-2, 0x1.9991a6ec5494dp-3,
                                                      -0x1.23b637a7a5c0dp-3, 0x1.b1fa25daebf0fp-4,
                                                      -0x1.f22b536a3b3d6p-5};
// on [1.0, 2.0], weighted error 2^-11.95
inline constexpr std::array<double, 4> cbrt_f64{0x1.8ab92b009030ep+0, -0x1.9eb35eebe6342p-1,
                                                0x1.456275f9cf472p-2, -0x1.9915db30fe52p-5};
// 16 pieces of [0.0, 3.9344], weighted error 2^-26.15
inline constexpr std::array<float, 16> erf_centre{
    0x1.4fbcdp-2f,  0x1.d60854p-2f, 0x1.2e29fcp-1f, 0x1.714f84p-1f, 0x1.d60846p-1f, 0x1.2e2ap+0f,
    0x1.714fc2p+0f, 0x1.b475aep+0f, 0x1.0c970ap+1f, 0x1.4fbd6p+1f,  0x1.92e994p+1f, 0x1.d3a012p+1f,
    0x0p+0f,        0x1.92e298p-4f, 0x1.4fbccp-3f,  0x1.d60864p-3f};
inline constexpr std::array<float, 16> erf_0{
    0x1.6db0f6p-2f, 0x1.ef5dep-2f,  0x1.312fb8p-1f, 0x1.6276c4p-1f, 0x1.9c9392p-1f, 0x1.cf52eap-1f,
    0x1.ead672p-1f, 0x1.f7db7ep-1f, 0x1.fe7684p-1f, 0x1.ffe4c6p-1f, 0x1.fffee2p-1f, 0x1.fffff8p-1f,
    0x0p+0f,        0x1.c52536p-4f, 0x1.7778f4p-3f, 0x1.049aa6p-2f};
inline constexpr std::array<float, 16> erf_1{
    0x1.036c6ap+0f, 0x1.d3f924p-1f,  0x1.97d09ap-1f,  0x1.575fa4p-1f,
    0x1.f17034p-2f, 0x1.1ee262p-2f,  0x1.205e5ap-3f,  0x1.f9317cp-5f,
    0x1.c48a2cp-7f, 0x1.302482p-10f, 0x1.d70d62p-15f, 0x1.e43cdep-20f,
    0x1.06eba8p-3f, 0x1.1e1576p+0f,  0x1.193494p+0f,  0x1.120b0ep+0f};
inline constexpr std::array<float, 16> erf_2{
    -0x1.543a22p-2f,  -0x1.ad9d62p-2f, -0x1.e15b0ap-2f,  -0x1.ef5b9p-2f,
    -0x1.c8aa34p-2f,  -0x1.529e3ep-2f, -0x1.a001e2p-3f,  -0x1.aea78p-4f,
    -0x1.dacd38p-6f,  -0x1.8ede72p-9f, -0x1.72a826p-13f, -0x1.b9deep-18f,
    -0x1.39057cp-30f, -0x1.c23b8ap-4f, -0x1.70cbb4p-3f,  -0x1.f727bp-3f};
inline constexpr std::array<float, 16> erf_3{
    -0x1.0f87f6p-2f, -0x1.6907f6p-3f, -0x1.49f6e8p-4f, 0x1.293a9cp-7f,
    0x1.c6b216p-4f,  0x1.55a63cp-3f,  0x1.2ff8e4p-3f,  0x1.954b94p-4f,
    0x1.267364p-5f,  0x1.4337d4p-8f,  0x1.703212p-12f, 0x1.01679ep-16f,
    -0x1.81273ap-2f, -0x1.76118p-2f,  -0x1.62cad4p-2f, -0x1.46e526p-2f};
inline constexpr std::array<float, 16> erf_4{
    0x1.3b872cp-3f,   0x1.7196b8p-3f,  0x1.71efecp-3f,   0x1.43cbdp-3f,
    0x1.9081ap-4f,    0x1.83f656p-7f,  -0x1.42461p-5f,   -0x1.94c3ccp-5f,
    -0x1.cb5b36p-6f,  -0x1.65ad62p-8f, -0x1.0349a2p-11f, -0x1.b6f5c2p-16f,
    -0x1.bad4d2p-17f, 0x1.c9d56ap-5f,  0x1.74732ep-4f,   0x1.c7d1a2p-4f};
inline constexpr std::array<float, 16> erf_5{
    0x1.e4e4f4p-5f, 0x1.44e076p-6f,  -0x1.2be932p-6f, -0x1.8b1becp-5f,
    -0x1.19d32p-4f, -0x1.c660dep-5f, -0x1.66bd7ap-6f, 0x1.f28f0ap-9f,
    0x1.99a25cp-7f, 0x1.1b779ap-8f,  0x1.1f39f8p-11f, 0x1.32246cp-15f,
    0x1.cfc674p-4f, 0x1.c9d586p-4f,  0x1.a6741ep-4f,  0x1.47f24ap-4f};
inline constexpr std::array<float, 16> erf_6{
    -0x1.930d64p-6f, -0x1.31648p-4f,  -0x1.20964ap-4f,  -0x1.97e4f4p-5f,
    -0x1.fc2488p-8f, 0x1.0b18f8p-6f,  0x1.5151e8p-6f,   0x1.e7d7b6p-7f,
    -0x1.682b7p-10f, -0x1.26d1b6p-9f, -0x1.c098b6p-12f, -0x1.14404ep-15f,
    -0x1.59851cp-8f, -0x1.7382dep-1f, -0x1.7b36a8p+0f,  0x1.1328aap+2f};
// on [0.0, 1.0001], weighted error 2^-56.33
inline constexpr std::array<double, 13> erf_f64{
    0x1.06eba8214db69p-3,  -0x1.812746b0379fdp-2,  0x1.ce2f21a04361p-4,   -0x1.b82ce312ab112p-6,
    0x1.565bcd126ea36p-8,  -0x1.c02db492639d8p-11, 0x1.f9a33427efbb6p-14, -0x1.f4d31e020fbbcp-17,
    0x1.b9ed77fcd9362p-20, -0x1.5f8e7db9273ccp-23, 0x1.fc0f4ad594abfp-27, -0x1.4530631c6ab11p-30,
    0x1.25fa71e6c6a8dp-34};
// on [-1.0, 0.7501], weighted error 2^-54.41
inline constexpr std::array<double, 23> erfcx_f64{
    0x1.3ba5916e9fd7fp+0,   -0x1.1df1ad154a29cp-3,  0x1.f7f5df66fcb25p-7,   0x1.16ecefcfa601bp-4,
    -0x1.9ddb23c3e569bp-4,  0x1.7fee004df77ddp-4,   -0x1.0fb06dfe8c279p-4,  0x1.3079edf9cf401p-5,
    -0x1.096238796f5eap-6,  0x1.49c671a1d5629p-8,   -0x1.8d4aa48f69a5ep-11, -0x1.a1de9180a8f34p-13,
    0x1.3be10f77435eep-13,  -0x1.99681a8a4046cp-16, -0x1.78b019226599fp-17, 0x1.7f9d3301d81bcp-18,
    0x1.4555066f5bc35p-22,  -0x1.bf1440489be24p-21, 0x1.09b7e64d27b5ep-24,  0x1.e6c5b3eb614dcp-24,
    -0x1.0e6cb3e78ac0ep-27, -0x1.bd4104e7c0a07p-27, -0x1.ae7efae022e65p-30};
// on [-1.0, 0.46667], weighted error 2^-30.07
inline constexpr std::array<double, 12> erfcx_short_f64{
    0x1.3ba5917106406p+0,  -0x1.1df1af592a4a9p-3, 0x1.f7f5198e006d7p-7,   0x1.16edd182ec27p-4,
    -0x1.9dd8095cae6a5p-4, 0x1.7fe33f8feef1ep-4,  -0x1.0fd71e4cda2bdp-4,  0x1.30bce3e64463ep-5,
    -0x1.064274d77c76cp-6, 0x1.4f646d900903fp-8,  -0x1.1874d500a64f6p-10, -0x1.46247073815ecp-11};
// 16 pieces of [0.0, 15.0], weighted error 2^-23.45
inline constexpr std::array<float, 16> gelu_centre{
    0x1.4p+0f, 0x1.cp+0f, 0x1.2p+1f, 0x1.6p+1f, 0x1.cp+1f, 0x1.2p+2f, 0x1.6p+2f, 0x1.ap+2f,
    0x1p+3f,   0x1.4p+3f, 0x1.8p+3f, 0x1.cp+3f, 0x0p+0f,   0x1.8p-2f, 0x1.4p-1f, 0x1.cp-1f};
inline constexpr std::array<float, 16> gelu_0{
    0x1.275f8ap-2f, 0x1.4bef66p-2f, 0x1.62039ap-2f, 0x1.701efp-2f,  0x1.7d241ap-2f, 0x1.86c626p-2f,
    0x1.8c2b88p-2f, 0x1.8f76dep-2f, 0x1.926972p-2f, 0x1.948c6ep-2f, 0x1.95bcb4p-2f, 0x1.9676b8p-2f,
    0x0p+0f,        0x1.238944p-3f, 0x1.9de55ap-3f, 0x1.f5594ep-3f};
inline constexpr std::array<float, 16> gelu_1{
    0x1.7b79d4p-4f,  0x1.bd45f8p-5f, 0x1.15aa6cp-5f,  0x1.6c5e3cp-6f,
    0x1.a29f24p-7f,  0x1.bfbaecp-8f, 0x1.07e3e8p-8f,  0x1.4ea506p-9f,
    0x1.762602p-10f, 0x1.8af24p-11f, 0x1.d0fb64p-12f, 0x1.27e806p-12f,
    0x1.fffffep-2f,  0x1.222f24p-2f, 0x1.9a45b2p-3f,  0x1.28beeep-3f};
inline constexpr std::array<float, 16> gelu_2{
    -0x1.aec808p-5f,  -0x1.be134p-6f,   -0x1.ee98c6p-7f,  -0x1.22a75p-7f,
    -0x1.1ed64cp-8f,  -0x1.004142p-9f,  -0x1.01f308p-10f, -0x1.1c6f7cp-11f,
    -0x1.0917acp-12f, -0x1.c89032p-14f, -0x1.c4f478p-15f, -0x1.f199bap-16f,
    -0x1.988254p-2f,  -0x1.a0aca2p-3f,  -0x1.12edd6p-3f,  -0x1.73b4e6p-4f};
inline constexpr std::array<float, 16> gelu_3{
    0x1.8fe8d4p-6f,  0x1.72161p-7f,  0x1.70c012p-8f,  0x1.87b40cp-9f,
    0x1.4f9d38p-10f, 0x1.fa2aep-12f, 0x1.b63bc8p-13f, 0x1.a67096p-14f,
    0x1.49a992p-15f, 0x1.d0d5bp-17f, 0x1.8573d2p-18f, 0x1.71c09cp-19f,
    0x1.ff7a72p-3f,  0x1.dc30fep-4f, 0x1.27b42ep-4f,  0x1.78ae26p-5f};
inline constexpr std::array<float, 16> gelu_4{
    -0x1.484888p-7f,  -0x1.11004ap-8f,  -0x1.ebe2c2p-10f, -0x1.dcaa24p-11f,
    -0x1.6aaddep-12f, -0x1.d16efp-14f,  -0x1.5d121ep-15f, -0x1.2c124ep-16f,
    -0x1.861e72p-18f, -0x1.badb3ep-20f, -0x1.33b13ap-21f, -0x1.ec7336p-23f,
    -0x1.0a4d92p-3f,  -0x1.d466d4p-5f,  -0x1.12a68cp-5f,  -0x1.4d7bfep-6f};
inline constexpr std::array<float, 16> gelu_5{
    0x1.e34194p-9f,  0x1.6e8b74p-10f, 0x1.2cf3fep-11f, 0x1.09a644p-12f,
    0x1.660a52p-14f, 0x1.873556p-16f, 0x1.fbf62ap-18f, 0x1.793ff2p-19f,
    0x1.ad2fc8p-21f, 0x1.962a9ap-23f, 0x1.e59f18p-25f, 0x1.593056p-26f,
    0x1.8b487cp-5f,  0x1.98fc8ap-6f,  0x1.cda1d8p-7f,  0x1.00b124p-7f};
// 2^(64 + k / 8), less what the bits of k / 8 add
inline constexpr std::array<int32_t, 8> power_eighth{
    0x5f800000, 0x5f7b95c2, 0x5f7837f0, 0x5f75fed7, 0x5f7504f3, 0x5f75672a, 0x5f7744fd, 0x5f7ac0c7};
// on [-0.043365, 0.043365], weighted error 2^-25.23
inline constexpr std::array<float, 3> exp_eighth_f32{0x1p+0f, 0x1.00088p-1f, 0x1.555d6cp-3f};
// 16 pieces of [0.0, 13.7], absolute error 2^-12.98
inline constexpr std::array<float, 16> gelu_bf16_0{
    -0x1.01f5d8p+0f, -0x1.26aeap+0f,  -0x1.497f9ep+0f, -0x1.69b1acp+0f,
    -0x1.8739d8p+0f, -0x1.a24af8p+0f, -0x1.bb28c2p+0f, -0x1.d2168ep+0f,
    -0x1.f0af86p+0f, -0x1.05718p+1f,  -0x1.62e4fep-1f, -0x1.67f934p-1f,
    -0x1.76ba6cp-1f, -0x1.8e8018p-1f, -0x1.acc968p-1f, -0x1.cf0c62p-1f};
inline constexpr std::array<float, 16> gelu_bf16_1{
    -0x1.cf79f8p-2f, -0x1.855a58p-2f, -0x1.4d476ep-2f, -0x1.222436p-2f,
    -0x1.00437p-2f,  -0x1.ca3b6ap-3f, -0x1.9deb4p-3f,  -0x1.792916p-3f,
    -0x1.4d3d92p-3f, -0x1.2c4a0ep-3f, -0x1.962f5ep-1f, -0x1.81cb66p-1f,
    -0x1.640cp-1f,   -0x1.44241cp-1f, -0x1.25b25p-1f,  -0x1.0a2c62p-1f};
inline constexpr std::array<float, 16> gelu_bf16_2{
    -0x1.e2ac02p-2f, -0x1.ec08ecp-2f, -0x1.f1af0ep-2f, -0x1.f54c5ap-2f,
    -0x1.f7ba6ep-2f, -0x1.f96e38p-2f, -0x1.faaa2cp-2f, -0x1.fb95fp-2f,
    -0x1.fc922ep-2f, -0x1.fd37fp-2f,  -0x1.5fa6fep-2f, -0x1.89753p-2f,
    -0x1.a79a0ep-2f, -0x1.bd0fecp-2f, -0x1.cc6238p-2f, -0x1.d772a2p-2f};
// 2^(64 + k / 16), less what the bits of k / 16 add
inline constexpr std::array<int32_t, 16> power_sixteenth{
    0x5f800000, 0x5f7daac3, 0x5f7b95c2, 0x5f79c3d3, 0x5f7837f0, 0x5f76f532, 0x5f75fed7, 0x5f75583f,
    0x5f7504f3, 0x5f7508a4, 0x5f75672a, 0x5f76248c, 0x5f7744fd, 0x5f78ccdf, 0x5f7ac0c7, 0x5f7d257d};
// on [-0.5, 0.5], weighted error 2^-18.55
inline constexpr std::array<float, 5> exp2_bf16{0x1.ffffe8p-1f, 0x1.62e0dep-1f, 0x1.ec06acp-3f,
                                                0x1.ca142ep-5f, 0x1.39a344p-7f};
// on [-0.5001, 0.5001], weighted error 2^-56.13
inline constexpr std::array<double, 19> lgamma_f64{
    0x1.b0ee6072093cep-2,   0x1.4a34cc4a60fa7p-2,  -0x1.13e001a5575bbp-4,  0x1.51322ac7d7c97p-6,
    -0x1.e404fc21a1a3ap-8,  0x1.7add6eaea15d1p-9,  -0x1.38ac5c240c06cp-10, 0x1.0b36af1d395e5p-11,
    -0x1.d3fd5013c53bep-13, 0x1.a127e57ed86dp-14,  -0x1.78dde7ecd0f2dp-15, 0x1.5805f37e50847p-16,
    -0x1.3cc3f9aa05f62p-17, 0x1.264ec455f617bp-18, -0x1.1195c067d4d7ap-19, 0x1.ed0201f220511p-21,
    -0x1.db7c7a9c9be3ap-22, 0x1.2cf82febef71ep-22, -0x1.0a7e64b06300fp-23};
// on [1.0e-9, 0.015625], weighted error 2^-54.0
inline constexpr std::array<double, 7> stirling_f64{
    0x1.5555555555555p-4,  -0x1.6c16c16c109a8p-9,  0x1.a01a015de523p-11, -0x1.3813321c30c0bp-11,
    0x1.b920ebf31c5f9p-11, -0x1.ee6dc0e561521p-10, 0x1.467bf5fa50e7cp-8};
// on [1.0e-9, 0.01], weighted error 2^-54.0
inline constexpr std::array<double, 7> digamma_f64{
    0x1.5555555555555p-4, -0x1.111111110ed3cp-7, 0x1.041040f25cefap-8, -0x1.1110f1c9faeb8p-8,
    0x1.f05f5b0df3199p-8, -0x1.55fb1ac1ce158p-6, 0x1.189a9d5f890fcp-4};
// on [-2.5, 2.5], weighted error 2^-23.35
inline constexpr std::array<double, 9> erfinv_f64{
    0x1.805c5e2bb99p+0,     0x1.f91ec5e312522p-3,  -0x1.11ca4ec1675b3p-8,
    -0x1.48a6e2d487e7cp-10, 0x1.ca713607b4363p-13, -0x1.27101c2b966d8p-18,
    -0x1.d9a367f87fef7p-19, 0x1.7112dac39395dp-22, 0x1.ea3f9aa3a5c21p-26};
// on [-1.7639, 2.1], weighted error 2^-20.42
inline constexpr std::array<double, 10> erfinv_tail_f64{
    0x1.eb7dfc4efe958p+1,  0x1.026ee5695bbabp+0,   0x1.502b8cbda1ccap-10, -0x1.e1c84016d9aabp-11,
    0x1.2109822762d13p-12, -0x1.b12b425eb29e3p-15, 0x1.4e5f1a53d1802p-14, -0x1.230a0f1ddce61p-14,
    0x1.49a21fe7922e7p-16, -0x1.5e701604f473fp-20};
// 16 pieces of [0.0, 16.0], weighted error 2^-24.01
inline constexpr std::array<float, 16> erfinv_centre{
    0x1.5555555555555p+0f, 0x1.ddddddddddddep+0f, 0x1.3333333333333p+1f, 0x1.7777777777777p+1f,
    0x1.ddddddddddddep+1f, 0x1.3333333333333p+2f, 0x1.7777777777777p+2f, 0x1.bbbbbbbbbbbbcp+2f,
    0x1.1111111111111p+3f, 0x1.5555555555555p+3f, 0x1.999999999999ap+3f, 0x1.ddddddddddddep+3f,
    0x1.1111111111111p-3f, 0x1.999999999999ap-2f, 0x1.5555555555555p-1f, 0x1.ddddddddddddep-1f};
inline constexpr std::array<float, 16> erfinv_0{
    0x1.35daep+0f,  0x1.5808a4p+0f, 0x1.7a0954p+0f, 0x1.9b7f18p+0f, 0x1.cc20cep+0f, 0x1.04b53cp+1f,
    0x1.213d08p+1f, 0x1.3bcf4cp+1f, 0x1.60862ap+1f, 0x1.8ccb68p+1f, 0x1.b4f6fp+1f,  0x1.d9f842p+1f,
    0x1.d5b074p-1f, 0x1.f621fcp-1f, 0x1.0b9a68p+0f, 0x1.1c6218p+0f};
inline constexpr std::array<float, 16> erfinv_1{
    0x1.ffc72cp-3f, 0x1.003498p-2f, 0x1.fac066p-3f, 0x1.f06714p-3f, 0x1.db7338p-3f, 0x1.bba48ap-3f,
    0x1.9cb41cp-3f, 0x1.81101p-3f,  0x1.5e8dc2p-3f, 0x1.3b3c86p-3f, 0x1.207614p-3f, 0x1.0b6586p-3f,
    0x1.e136cep-3f, 0x1.ebbc78p-3f, 0x1.f41c48p-3f, 0x1.fa55fcp-3f};
inline constexpr std::array<float, 16> erfinv_2{
    0x1.003a58p-9f,  -0x1.4bd1fap-10f, -0x1.f0a13ep-9f, -0x1.6cb036p-8f,
    -0x1.cb105cp-8f, -0x1.e0768ep-8f,  -0x1.ba29bep-8f, -0x1.8238f6p-8f,
    -0x1.329902p-8f, -0x1.c8f0b8p-9f,  -0x1.614ffcp-9f, -0x1.1ad72ap-9f,
    0x1.5b3982p-7f,  0x1.1bb86ep-7f,   0x1.b60d2ap-8f,  0x1.36061ep-8f};
inline constexpr std::array<float, 16> erfinv_3{
    -0x1.208b68p-9f,  -0x1.d91126p-10f, -0x1.5f701ep-10f, -0x1.d27936p-11f,
    -0x1.6c798cp-12f, 0x1.4f4f76p-14f,  0x1.00fbp-12f,    0x1.1d741ap-12f,
    0x1.d8e1c2p-13f,  0x1.3c81c4p-13f,  0x1.a6c89ap-14f,  0x1.2610b8p-14f,
    -0x1.39d4aap-9f,  -0x1.42cb14p-9f,  -0x1.42f412p-9f,  -0x1.3a94f4p-9f};
inline constexpr std::array<float, 16> erfinv_4{
    0x1.3bc738p-13f,  0x1.78b262p-13f,  0x1.dbab6p-13f,   0x1.8da0f4p-13f,
    0x1.29100ep-13f,  0x1.21451p-14f,   0x1.140838p-16f,  0x1.bfedbp-24f,
    -0x1.3e5a18p-17f, -0x1.de3476p-18f, -0x1.35743p-18f,  -0x1.8d6b6ap-19f,
    0x1.64e4e6p-13f,  -0x1.986d34p-13f, -0x1.9eb1d2p-13f, 0x1.13b482p-21f};

}  // namespace hologram::atlas::math::table
